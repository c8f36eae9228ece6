import { z } from "zod";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { ObjectMeta } from "../../../src/kube/object.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import type { HandlerParts, Values } from "../handler.ts";
import { lookAtCluster } from "../look-at-cluster.ts";
import { declarerOf } from "../owner.ts";
import { unknownValue } from "../unknown.ts";
import { digestKeyEntry, recipeSecretName } from "./recipe-secret.ts";

/**
 * The key of the digest that a run has made which ended before its state was written: it is in the Secret that the run left, if that
 * is this resource's own. With another key there would be another digest, and all would be built anew. Undefined where the state
 * has a key, none is needed, or the cluster does not tell.
 */
export async function keptDigestKey(
  parts: HandlerParts,
  { digestKey }: Values,
  { name, namespace, owner, secrets }: Values,
): Promise<string | undefined> {
  if (secrets === undefined || (typeof digestKey === "string" && digestKey !== "")) return undefined;
  if (!isKnown(name) || !isKnown(namespace) || !isKnown(owner)) return undefined;
  const at = { namespace, name: recipeSecretName(name) };
  const look = (client: KubeClient, signal: AbortSignal) =>
    client.resource(coreResources.secrets, (value) => KeyedSecret.parse(value)).find(at, { signal });
  const found = await lookAtCluster(parts, look, { withinMilliseconds: 5_000 }).catch(() => undefined);
  return found !== undefined && declarerOf(found, "") === owner ? found.data?.[digestKeyEntry] : undefined;
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
