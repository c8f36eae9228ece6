import { namedSnapshotKind, NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { refOf } from "../ref-of.ts";
import type { SnapshotChange } from "./describe-change.ts";
import { followersOf } from "./followers.ts";

export function snapshotsOf(client: KubeClient): ResourceClient<NamedSnapshot> {
  return client.resource(refOf(namedSnapshotKind), (value) => NamedSnapshot.parse(value));
}

/** What a preview asks the cluster: which versions are kept, whether it is held at one, and who follows the name. */
export async function lookUp(
  client: KubeClient,
  { namespace, name }: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<Pick<SnapshotChange, "kept" | "held" | "followers">> {
  const [found, followers] = await Promise.all([
    snapshotsOf(client).find({ namespace, name }, { signal }),
    followersOf(client, { namespace, name }, signal),
  ]);
  const held = found && holdOf(found);
  return {
    kept: found?.status?.versions ?? [],
    ...(held !== undefined && { held }),
    followers: followers.map(({ metadata, spec }) => ({ name: metadata.name, replicas: spec.replicas })),
  };
}

/** What has been told it by hand, which no program takes back. */
function holdOf({ metadata: { name }, spec }: NamedSnapshot): string | undefined {
  if (spec.pinnedVersion !== undefined) {
    return `it is pinned to version ${spec.pinnedVersion}, which goes on serving until: ramet snapshot unpin ${name}`;
  }
  return spec.suspend === true ? "it is suspended: nothing is built until spec.suspend is taken away" : undefined;
}
