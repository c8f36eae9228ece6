import { RametError } from "../api/errors.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";

/** What an id stands for. */
export interface Found {
  /** Where such a sandbox is, or would be. Absent: it names no namespace, and there is none of this UID. */
  at?: { namespace: string; name: string };
  sandbox?: RoutedSandbox;
}

/**
 * Finds the sandbox that an id names: a UID, or `<namespace>--<name>`, of which either may have `--` in itself.
 * @throws RametError `InvalidArgument` when two sandboxes have that id
 */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  if (isUid.test(id)) {
    const sandbox = store.byUid(id);
    return sandbox === undefined ? {} : { at: placeOf(sandbox), sandbox };
  }
  const places = [...id.matchAll(/(?=--)/g)].flatMap(({ index }) => {
    const [namespace, name] = [id.slice(0, index), id.slice(index + 2)];
    return isLabel.test(namespace) && isLabel.test(name) ? [{ namespace, name }] : [];
  });
  const sandboxes = places.flatMap(({ namespace, name }) => store.get(`${namespace}/${name}`) ?? []);
  const [sandbox, other] = sandboxes;
  if (sandbox !== undefined && other !== undefined) {
    const [one, two] = [sandbox, other].map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
    throw new RametError("InvalidArgument", `The id ${id} can be read as ${one} and as ${two}, and both are there`, {
      hint: "Use the UID of the Sandbox instead",
    });
  }
  if (sandbox !== undefined) return { at: placeOf(sandbox), sandbox };
  const [at] = places;
  return at === undefined ? {} : { at };
}

function placeOf({ metadata: { namespace, name } }: RoutedSandbox): { namespace: string; name: string } {
  return { namespace, name };
}

const isUid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
