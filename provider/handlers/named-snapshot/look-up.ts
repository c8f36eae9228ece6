import { restoreFromAnnotations } from "../../../src/api/labels.ts";
import { namedSnapshotKind, NamedSnapshot } from "../../../src/api/named-snapshot.ts";
import { SandboxSet, sandboxSetKind } from "../../../src/api/sandbox-set.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { refOf } from "../ref-of.ts";
import type { SnapshotChange } from "./describe-change.ts";

export function snapshotsOf(client: KubeClient): ResourceClient<NamedSnapshot> {
  return client.resource(refOf(namedSnapshotKind), (value) => NamedSnapshot.parse(value));
}

/** What a preview asks the cluster: which versions are kept, and who follows the name. */
export async function lookUp(
  client: KubeClient,
  { namespace, name }: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<Pick<SnapshotChange, "kept" | "followers">> {
  const sets = client.resource(refOf(sandboxSetKind), (value) => SandboxSet.parse(value));
  const [found, { items }] = await Promise.all([
    snapshotsOf(client).find({ namespace, name }, { signal }),
    sets.list({ namespace, signal }),
  ]);
  return {
    kept: found?.status?.versions ?? [],
    followers: items
      .filter(({ spec }) => restoreFromAnnotations.some((key) => annotationsOf(spec.template)[key] === name))
      .map(({ metadata, spec }) => ({ name: metadata.name, replicas: spec.replicas })),
  };
}

function annotationsOf(template: Record<string, unknown> | undefined): Record<string, unknown> {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> } | undefined;
  return metadata?.annotations ?? {};
}
