import * as z from "zod";
import { NamedSnapshot, namedSnapshotKind } from "../../../src/api/kinds/named-snapshot.ts";
import { SandboxSet, sandboxSetKind } from "../../../src/api/kinds/sandbox-set.ts";
import { restoreFromAnnotations } from "../../../src/api/names/labels.ts";
import { setRevision } from "../../../src/api/set/set-revision.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { ObjectMeta, type ObjectName } from "../../../src/kube/object.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { waitUntil } from "../../../src/kube/wait-until.ts";
import type { HandlerContext, Values } from "../handler.ts";
import { readCluster, refOf } from "../open-cluster.ts";
import { ownerOf } from "../owner.ts";
import { unknownValue } from "../validate.ts";
import type { SnapshotChange } from "./preview.ts";
import { digestKeyEntry, recipeSecretName } from "./recipe-secret.ts";

export function snapshotClient(client: KubeClient): ResourceClient<NamedSnapshot> {
  return client.resource(refOf(namedSnapshotKind), (value) => NamedSnapshot.parse(value));
}

/** What a preview asks the cluster: which versions are kept, whether it is held at one, and who follows the name. */
export async function lookUp(
  client: KubeClient,
  { namespace, name }: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<Pick<SnapshotChange, "kept" | "held" | "followers">> {
  const [found, followers] = await Promise.all([
    snapshotClient(client).find({ namespace, name }, { signal }),
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

/**
 * The key of the digest that a run has made which ended before its state was written: it is in the Secret that the run left, if that
 * is this resource's own. With another key there would be another digest, and all would be built anew. Undefined where the state
 * has a key, none is needed, or the cluster does not tell.
 */
export async function recoverDigestKey(
  context: HandlerContext,
  { digestKey }: Values,
  { name, namespace, owner, secrets }: Values,
): Promise<string | undefined> {
  if (secrets === undefined || (typeof digestKey === "string" && digestKey !== "")) return undefined;
  if (!isKnown(name) || !isKnown(namespace) || !isKnown(owner)) return undefined;
  const at = { namespace, name: recipeSecretName(name) };
  const look = (client: KubeClient, signal: AbortSignal) =>
    client.resource(coreResources.secrets, (value) => KeyedSecret.parse(value)).find(at, { signal });
  const found = await readCluster(context, look, { withinMilliseconds: 5_000 }).catch(() => undefined);
  return found !== undefined && ownerOf(found, "") === owner ? found.data?.[digestKeyEntry] : undefined;
}

function isKnown(value: unknown): value is string {
  return typeof value === "string" && value !== unknownValue;
}

const Key = z
  .string()
  .transform((base64) => Buffer.from(base64, "base64").toString())
  .pipe(z.string().regex(/^[0-9a-f]{64}$/));
const KeyedSecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [digestKeyEntry]: Key.optional() }).optional(),
});

/** The sets that follow a named snapshot, whatever its version. */
async function followersOf(
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
