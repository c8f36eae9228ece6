import { namedSnapshotKind, type NamedSnapshot } from "../../api/kinds/named-snapshot.ts";

/** For what goes when the snapshot goes. */
export function ownerReference({ metadata: { name, uid } }: NamedSnapshot) {
  const { apiVersion, kind } = namedSnapshotKind;
  return { apiVersion, kind, name, uid, controller: true };
}
