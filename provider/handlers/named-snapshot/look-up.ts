import * as z from "zod";
import { NamedSnapshot, namedSnapshotKind } from "../../../src/api/kinds/named-snapshot.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { ObjectMeta } from "../../../src/kube/object.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import type { HandlerContext, Values } from "../handler.ts";
import { readCluster, refOf } from "../open-cluster.ts";
import { ownerOf } from "../owner.ts";
import { unknownValue } from "../validate.ts";
import type { SnapshotChange } from "./describe-change.ts";
import { followersOf } from "./followers.ts";
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
