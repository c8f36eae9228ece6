import { version, type KindNames } from "../../src/api/schema/kind.ts";
import type { ResourceRef } from "../../src/kube/resource-ref.ts";

/** Where the API server has the objects of one of Ramet's kinds. */
export function refOf({ kind, plural, group }: KindNames & { group: string }): ResourceRef {
  return { group, version, plural, kind, namespaced: true };
}
