import type { ObjectStore } from "../kube/store.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";

/** What an id stands for. */
export interface Found {
  /** Where such sandboxes are, or where one would be. None: the id names no namespace, and there is none of this UID. */
  places: { namespace: string; name: string }[];
  /** Absent: there is none, or more than one. */
  sandbox?: RoutedSandbox;
}

/** Finds the sandbox that an id names: a UID, or `<namespace>--<name>`, of which either may have `--` in itself. */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  const places = placesOf(id);
  const byName = places.flatMap(({ namespace, name }) => store.get(`${namespace}/${name}`) ?? []);
  const sandboxes = isUid.test(id) ? [store.byUid(id)].filter((found) => found !== undefined) : byName;
  const [sandbox, other] = sandboxes;
  if (sandbox === undefined) return { places: places.slice(0, 1) };
  return { places: sandboxes.map(placeOf), ...(other === undefined && { sandbox }) };
}

/** As what the id can be read, a UID as nothing. */
function placesOf(id: string): { namespace: string; name: string }[] {
  return [...id.matchAll(/(?=--)/g)].flatMap(({ index }) => {
    const [namespace, name] = [id.slice(0, index), id.slice(index + 2)];
    return isLabel.test(namespace) && isLabel.test(name) ? [{ namespace, name }] : [];
  });
}

function placeOf({ metadata: { namespace, name } }: RoutedSandbox): { namespace: string; name: string } {
  return { namespace, name };
}

const isUid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
