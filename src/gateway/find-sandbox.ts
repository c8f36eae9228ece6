import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";

/** The sandbox that an id names. */
export interface Found {
  /** Where the sandbox is, or would be. Empty if the id contains no namespace and no sandbox has this UID. */
  places: { namespace: string; name: string }[];
  sandbox?: RoutedSandbox;
}

/**
 * Finds a sandbox by UID, with or without dashes, or by `<namespace>--<name>`.
 * @throws RametError `InvalidArgument` if the id can be split in two ways, whether or not these sandboxes exist: otherwise a
 *   namespace could take over the host name of another namespace's deleted sandbox
 */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  const uid = uidOf(id);
  if (uid !== undefined) {
    const sandbox = store.byUid(uid);
    if (sandbox === undefined) return { places: [] };
    const { namespace, name } = sandbox.metadata;
    return { places: [{ namespace, name }], sandbox };
  }
  const places = placesOf(id);
  const [place] = places;
  if (place === undefined) return { places };
  if (places.length > 1) {
    throw new RametError("InvalidArgument", `The id ${id} is ambiguous: it contains -- more than once`, {
      hint: "Use the UID of the Sandbox instead",
    });
  }
  const sandbox = store.get(`${place.namespace}/${place.name}`);
  return defined({ places, sandbox });
}

/** Whether an id is a UID: nobody can guess it, and its owner need not know the sandbox's namespace and name. */
export function isUid(id: string): boolean {
  return uidForm.test(id);
}

/** The UID that an id is, with dashes; undefined if it is none. */
export function uidOf(id: string): string | undefined {
  return isUid(id) ? withDashes(id) : undefined;
}

/** How messages name a sandbox: with what the client already knows. */
export function sandboxTitle(id: string, { metadata: { namespace, name } }: RoutedSandbox): string {
  return isUid(id) ? `sandbox ${id}` : `sandbox ${name} in ${namespace}`;
}

function withDashes(id: string): string {
  if (id.includes("-")) return id;
  return [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20)].join("-");
}

/** All ways to split the id into namespace and name. */
function placesOf(id: string): { namespace: string; name: string }[] {
  return [...id.matchAll(/(?=--)/g)].flatMap(({ index }) => {
    const [namespace, name] = [id.slice(0, index), id.slice(index + 2)];
    return isLabel.test(namespace) && isLabel.test(name) ? [{ namespace, name }] : [];
  });
}

const uidForm = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/;
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
