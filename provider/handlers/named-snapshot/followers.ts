import { restoreFromAnnotations } from "../../../src/api/names/labels.ts";
import type { NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import { SandboxSet, sandboxSetKind } from "../../../src/api/kinds/sandbox-set.ts";
import { setRevision } from "../../../src/api/set/set-revision.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ObjectName } from "../../../src/kube/object.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { waitUntil } from "../../../src/kube/wait-until.ts";
import { refOf } from "../open-cluster.ts";

/** The sets that follow a named snapshot, whatever its version. */
export async function followersOf(
  client: KubeClient,
  { namespace, name }: ObjectName,
  signal?: AbortSignal,
): Promise<SandboxSet[]> {
  const { items } = await setsOf(client).list({ namespace, signal });
  return items.filter(({ spec }) => restoreFromAnnotations.some((key) => annotationsOf(spec.template)[key] === name));
}

/**
 * Waits until the sets that follow a named snapshot have heard of the version that serves: whoever waits for a set next would else
 * take what it said of the version before for the answer. It is no more than a courtesy: a set that does not hear is not waited for
 * long, and one that may not be read not at all.
 */
export async function waitForFollowers(client: KubeClient, { metadata, status }: NamedSnapshot): Promise<void> {
  const { checkpointId } = status ?? {};
  if (checkpointId === undefined) return;
  const resource = setsOf(client);
  const followers = await followersOf(client, metadata).catch(() => []);
  const hears = followers.map(async (from) => {
    const until = (seen: SandboxSet | undefined): boolean =>
      seen === undefined || seen.status?.updateRevision === setRevision(seen, undefined, () => checkpointId).hash;
    await waitUntil({ resource, from, until, timeoutMilliseconds: hearingMilliseconds });
  });
  await Promise.allSettled(hears);
}

function setsOf(client: KubeClient): ResourceClient<SandboxSet> {
  return client.resource(refOf(sandboxSetKind), (value) => SandboxSet.parse(value));
}

function annotationsOf(template: Record<string, unknown> | undefined): Record<string, unknown> {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> } | undefined;
  return metadata?.annotations ?? {};
}

const hearingMilliseconds = 5_000;
