import { createHmac, randomBytes } from "node:crypto";
import * as z from "zod";
import { contentDigestAnnotation } from "../../../src/api/snapshot/snapshot-digest.ts";
import { canonicalJson } from "../../../src/base/canonical-json.ts";
import { RametError, unlessCode } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { type KubeManifest, ObjectMeta } from "../../../src/kube/object.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import type { HandlerContext, Values } from "../handler.ts";
import { readCluster } from "../open-cluster.ts";
import { applyOwned, ownerOf } from "../owner.ts";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";
import { unknownValue } from "../validate.ts";
import type { NamedSnapshotInputs } from "./inputs.ts";

/** The name of the Secret with the secret files that a named snapshot's recipe copies. */
export function recipeSecretName(snapshot: string): string {
  return `${snapshot}-recipe`;
}

/**
 * The key of a copied file in the Secret. It is derived from the file's path, so that it stays the same if a step is inserted before.
 * @param path anything else if the program does not know it yet
 */
export function freeKey(taken: object, path: unknown): string {
  const text = typeof path === "string" ? path.replace(/^\/+/, "").replace(/[^-._a-zA-Z0-9]/g, "_") : "file";
  const base = text === "" ? "file" : text;
  for (let count = 1; ; count++) {
    const key = count === 1 ? base : `${base}-${count}`;
    if (!Object.hasOwn(taken, key)) return key;
  }
}

/**
 * Represents the secrets in the digest: an HMAC whose key is in the stack's encrypted state. A preview can compute it, but short
 * secrets cannot be guessed from it (docs/decisions/0006).
 */
export function contentDigest(secrets: Readonly<Record<string, string>>, key: string): string {
  return `hmac-sha256:${createHmac("sha256", Buffer.from(key, "hex")).update(canonicalJson(secrets)).digest("hex")}`;
}

export function newDigestKey(): string {
  return randomBytes(32).toString("hex");
}

/** Writes the Secret of the recipe. @param formerOwner the resource's name when its state was written */
export async function applyRecipeSecret(
  client: KubeClient,
  inputs: NamedSnapshotInputs,
  formerOwner?: string,
): Promise<void> {
  const secrets = client.resource(coreResources.secrets);
  const at = { namespace: inputs.namespace, name: recipeSecretName(inputs.name) };
  const declared = { found: await secrets.find(at), owner: inputs.owner, former: { owner: formerOwner } };
  await applyOwned(secrets, recipeSecret(inputs), declared);
}

function recipeSecret({ name, namespace, owner, secrets = {}, digestKey = "" }: NamedSnapshotInputs): KubeManifest {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name: recipeSecretName(name),
      namespace,
      annotations: { [ownerAnnotation]: owner, [contentDigestAnnotation]: contentDigest(secrets, digestKey) },
    },
    data: Object.fromEntries(
      Object.entries({ [digestKeyEntry]: digestKey, ...secrets }).map(([key, text]) => [
        key,
        Buffer.from(text).toString("base64"),
      ]),
    ),
  };
}

/** The Secret's key for the digest key. A file with the same name would replace it. */
const digestKeyEntry = ".digest-key";

/**
 * Reads the program's secrets as they are in the cluster, so that an edited or deleted one shows as a change. Returns undefined if the
 * program has no secrets, or if reading them is forbidden.
 */
export async function readRecipeSecrets(
  client: KubeClient,
  { name, namespace, secrets }: { name: string; namespace: string; secrets?: Record<string, string> | undefined },
): Promise<Record<string, string> | undefined> {
  if (secrets === undefined) return undefined;
  const resource = client.resource(coreResources.secrets, (value) => Secret.parse(value));
  try {
    const data = (await resource.find({ namespace, name: recipeSecretName(name) }))?.data ?? {};
    const keys = Object.keys(secrets).filter((key) => Object.hasOwn(data, key));
    return Object.fromEntries(keys.map((key) => [key, Buffer.from(data[key] ?? "", "base64").toString()]));
  } catch (error) {
    if (RametError.from(error).code !== "Forbidden") throw error;
    return undefined;
  }
}

/** Deletes the Secret of the recipe, also that of an earlier one. A user who cannot read Secrets has written none. */
export async function deleteRecipeSecret(
  client: KubeClient,
  { name, namespace, owner, secrets }: NamedSnapshotInputs,
): Promise<void> {
  const resource = client.resource(coreResources.secrets);
  const at = { namespace, name: recipeSecretName(name) };
  const found = resource.find(at);
  const secret = await (secrets === undefined ? found.catch(unlessCode("Forbidden")) : found);
  // One without the annotation is only known by the state.
  const own = secrets === undefined ? "" : owner;
  if (secret === undefined || ownerOf(secret, own) !== owner) return;
  await resource.delete(at, { uid: secret.metadata.uid });
}

/**
 * Recovers the digest key of a run that ended before its state was written, from the Secret of that run. A new key would change the
 * digest and rebuild everything. Returns undefined if the state has a key, if none is needed, if the Secret belongs to another
 * resource, or if the cluster cannot be read.
 */
export async function recoverDigestKey(
  context: HandlerContext,
  { digestKey }: Values,
  { name, namespace, owner, secrets }: Values,
): Promise<string | undefined> {
  if (secrets === undefined || (typeof digestKey === "string" && digestKey !== "")) return undefined;
  if (!isKnown(name) || !isKnown(namespace) || !isKnown(owner)) return undefined;
  const at = { namespace, name: recipeSecretName(name) };
  const find = (client: KubeClient, signal: AbortSignal) =>
    client.resource(coreResources.secrets, (value) => KeyedSecret.parse(value)).find(at, { signal });
  const found = await readCluster(context, find, { withinMilliseconds: 5_000 }).catch(() => undefined);
  return found !== undefined && ownerOf(found, "") === owner ? found.data?.[digestKeyEntry] : undefined;
}

function isKnown(value: unknown): value is string {
  return typeof value === "string" && value !== unknownValue;
}

const Secret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).optional() });
const Key = z
  .string()
  .transform((base64) => Buffer.from(base64, "base64").toString())
  .pipe(z.string().regex(/^[0-9a-f]{64}$/));
const KeyedSecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [digestKeyEntry]: Key.optional() }).optional(),
});
