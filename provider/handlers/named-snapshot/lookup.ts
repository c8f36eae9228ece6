import { type NamedSnapshot, namedSnapshotKind } from "../../../src/api/kinds/named-snapshot.ts";
import { type SandboxSet, sandboxSetKind } from "../../../src/api/kinds/sandbox-set.ts";
import { setRevision } from "../../../src/api/set/set-revision.ts";
import { followsSnapshot, holdOf } from "../../../src/api/snapshot/snapshot-review.ts";
import { defined } from "../../../src/base/defined.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ObjectName } from "../../../src/kube/object.ts";
import { waitUntil } from "../../../src/kube/wait-until.ts";

/** The facts that a preview reads from the cluster. */
export interface SnapshotLookup {
  kept: readonly { version: number; digest: string }[];
  /** The digests of the steps that the last build has finished, also if it failed later. */
  built?: readonly string[];
  /** Why the current version does not change, and how to release it. Undefined if it changes. */
  held?: string;
  /** Sets that follow the name, with their number of sandboxes. */
  followers: readonly { name: string; replicas: number }[];
  found?: NamedSnapshot;
}

/** Reads what a preview shows: the kept versions, whether the current version is held, and the sets that follow the name. */
export async function lookUp(
  client: KubeClient,
  { namespace, name }: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<SnapshotLookup> {
  const [found, followers] = await Promise.all([
    client.of(namedSnapshotKind).find({ namespace, name }, { signal }),
    followersOf(client, { namespace, name }, signal),
  ]);
  const held = found && holdOf(found);
  return {
    kept: found?.status?.versions ?? [],
    built: finishedSteps(found),
    ...defined({ held, found }),
    followers: followers.map(({ metadata, spec }) => ({ name: metadata.name, replicas: spec.replicas })),
  };
}

function finishedSteps(found: NamedSnapshot | undefined): string[] {
  if (found?.spec.stepCache !== "EveryStep") return [];
  const steps = found.status?.steps ?? [];
  const firstOpen = steps.findIndex(({ state }) => state !== "Succeeded");
  return (firstOpen < 0 ? steps : steps.slice(0, firstOpen)).map(({ digest }) => digest);
}

/** The sets that follow a named snapshot, that is, refer to it without a version. */
async function followersOf(
  client: KubeClient,
  { namespace, name }: ObjectName,
  signal: AbortSignal,
): Promise<SandboxSet[]> {
  const { items } = await client.of(sandboxSetKind).list({ namespace, signal });
  return items.filter((set) => followsSnapshot(set, name));
}

/**
 * Waits until the sets that follow a named snapshot have observed its current version. Otherwise a caller that waits for a set next
 * would accept the set's status of the previous version. This is best effort: the wait is short, and unreadable sets are skipped.
 */
export async function waitForFollowers(
  client: KubeClient,
  { metadata, status }: NamedSnapshot,
  signal: AbortSignal,
): Promise<void> {
  const { checkpointId } = status ?? {};
  if (checkpointId === undefined) return;
  const resource = client.of(sandboxSetKind);
  const followers = await followersOf(client, metadata, signal).catch(() => []);
  const waits = followers.map(async (from) => {
    const until = (set: SandboxSet | undefined): boolean =>
      set === undefined || set.status?.updateRevision === setRevision(set, undefined, () => checkpointId).hash;
    await waitUntil({ resource, from, until, timeoutMilliseconds: followerMilliseconds, signal });
  });
  await Promise.allSettled(waits);
}

const followerMilliseconds = 5_000;
