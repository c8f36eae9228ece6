import { createHash } from "node:crypto";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { KeyRef } from "../../api/recipe/recipe.ts";
import { type CopiedContent, secretIdentity } from "../../api/snapshot/snapshot-digest.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { ObjectMeta } from "../../kube/object.ts";

export interface KeyedContent {
  bytes: Buffer;
  /** Represents the bytes in a digest. */
  identity: CopiedContent;
}

export type KeyedSource = { configMap: KeyRef } | { secret: KeyRef };

/**
 * One key of a ConfigMap or Secret. It is read on demand: watching every Secret of a cluster would take permissions that the
 * controller must not have, and would keep all Secrets in its memory.
 * @throws RametError `NotFound` for a missing object or key
 */
export async function keyedContent(
  client: KubeClient,
  namespace: string,
  source: KeyedSource,
  signal?: AbortSignal,
): Promise<KeyedContent> {
  const isSecret = "secret" in source;
  const { name, key } = isSecret ? source.secret : source.configMap;
  const resource = isSecret ? client.secrets : client.configMaps;
  const { kind } = resource.ref;
  const found = await resource.find({ namespace, name }, { signal });
  if (found === undefined) throw missing(`${kind} ${name}`, namespace);
  const text = found.data[key];
  const base64 = found.binaryData?.[key] ?? (isSecret ? text : undefined);
  if (base64 === undefined && text === undefined) throw missing(`the key ${key} of the ${kind} ${name}`, namespace);
  const bytes = base64 === undefined ? Buffer.from(text ?? "") : Buffer.from(base64, "base64");
  return { bytes, identity: identityOf(isSecret, found.metadata, bytes) };
}

/** The content of every key of a Secret; empty if it does not exist. */
export async function secretContents(
  client: KubeClient,
  at: { namespace: string; name: string },
  signal?: AbortSignal,
): Promise<Buffer[]> {
  const found = await client.secrets.find(at, { signal });
  return Object.values(found?.data ?? {}).map((base64) => Buffer.from(base64, "base64"));
}

function identityOf(isSecret: boolean, metadata: ObjectMeta, bytes: Buffer): CopiedContent {
  if (isSecret) return { identity: secretIdentity(metadata) };
  return { sha256: createHash("sha256").update(bytes).digest("hex") };
}

function missing(what: string, namespace: string): RametError {
  return new RametError("NotFound", `Cannot copy ${what}: it does not exist in the namespace ${namespace}`, {
    hint: "Create it; the build then continues",
  });
}

/**
 * Represents in a digest the content that steps copy from ConfigMaps and Secrets, by step index; or the missing object.
 * @throws RametError when an object cannot be read
 */
export async function copiedContents(
  client: KubeClient,
  { spec, metadata }: NamedSnapshot,
  signal?: AbortSignal,
): Promise<ReadonlyMap<number, CopiedContent> | { problem: RametError }> {
  try {
    const found = await Promise.all(
      spec.recipe.map(async ({ copy }, index): Promise<[number, CopiedContent][]> => {
        const source =
          copy?.configMapKeyRef === undefined
            ? copy?.secretKeyRef && { secret: copy.secretKeyRef }
            : { configMap: copy.configMapKeyRef };
        if (source === undefined) return [];
        return [[index, (await keyedContent(client, metadata.namespace, source, signal)).identity]];
      }),
    );
    return new Map(found.flat());
  } catch (thrown) {
    const error = RametError.from(thrown);
    // The user must create a missing object; any other error is retried.
    if (error.code !== "NotFound") throw error;
    return { problem: error };
  }
}
