import { hash } from "node:crypto";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import type { RecipeStep } from "../../api/recipe/recipe.ts";
import { treeArchive, treeCheckpointName, treeUser, uploadedTree } from "../../api/tree/tree-check.ts";
import { type TreeUpload as StoredTree, uploadTree as storeTree } from "../../operations/upload-tree.ts";
import type { ApiKeyLimits } from "../../api/keys/api-key-rules.ts";
import { withinSandboxLimit } from "./key-limits.ts";
import type { Guests } from "./guests.ts";
import type { ServiceParts } from "./parts.ts";
import { findSource } from "./source.ts";

export interface TreeUpload extends Pick<StoredTree, "namespace" | "digest" | "signal"> {
  /** The API key for whose limits the tree counts, and the sandbox that stores it. */
  owner: string;
  limits: ApiKeyLimits;
  /** An archive in the format of tar, with or without gzip. */
  archive: Readable;
}

/**
 * The digest under which a tree of an API key is stored. Clients report the digest of a tree themselves, so another key could store
 * other files under it.
 */
export function treeOfKey(key: string, reported: string): string {
  return hash("sha256", JSON.stringify([key, reported]));
}

/** The recipe of a client, with the trees of its API key. */
export function withTreesOf(key: string, recipe: readonly RecipeStep[]): RecipeStep[] {
  return recipe.map((step) =>
    step.copy?.tree === undefined ? step : { ...step, copy: { ...step.copy, tree: treeOfKey(key, step.copy.tree) } },
  );
}

/** Whether the namespace has a tree. */
export function hasTree({ informers }: ServiceParts, namespace: string, digest: string): boolean {
  const found = informers.checkpoints.store.get(`${namespace}/${treeCheckpointName(digest)}`);
  return uploadedTree(found, digest) !== undefined;
}

/**
 * Stores an uploaded directory tree, unless the namespace has it.
 * @throws RametError `InvalidArgument` for an archive that is not valid or too large
 */
export async function uploadTree(parts: ServiceParts, guests: Guests, upload: TreeUpload): Promise<void> {
  const { namespace, digest, owner, limits, archive, signal } = upload;
  const { informers, objects, clock } = parts;
  if (hasTree(parts, namespace, digest)) {
    // The client sees an error if nobody reads what it sends.
    for await (const _ of archive) signal.throwIfAborted();
    return;
  }
  const source = carrierSource(parts, namespace);
  await withinSandboxLimit(parts, { key: owner, namespace, limits }, ([requestId = ""]) =>
    storeTree(objects, {
      namespace,
      digest,
      source: {
        ...source,
        annotations: { ...source.annotations, [annotations.owner]: owner, [annotations.lock]: requestId },
      },
      annotations: { [annotations.owner]: owner },
      archive: decompressed(archive),
      write: async (sandbox, content) =>
        (await guests.guest(sandbox, treeUser)).writeFile(treeArchive, content, signal),
      read: (at) => informers.checkpoints.resource.get(at, { signal }),
      clock,
      timeoutMilliseconds,
      signal,
    }),
  );
}

const timeoutMilliseconds = 600_000;

/** The sandbox is made like those of clients that do not name a template. */
function carrierSource(parts: ServiceParts, namespace: string): StoredTree["source"] {
  const source = findSource(parts, namespace, "base");
  if (source.kind === "template") return { spec: { templateRef: { name: source.name } } };
  if (source.kind === "checkpoint") return { annotations: { [restoreFromAnnotations[0]]: source.reference }, spec: {} };
  const { template, templateRef } = source.set.spec;
  return { spec: templateRef === undefined ? { template } : { templateRef: { name: templateRef.name } } };
}

/** The archive without gzip. */
async function* decompressed(archive: Readable): AsyncGenerator<Buffer> {
  const chunks = archive.iterator() as AsyncIterableIterator<Buffer>;
  const first = await chunks.next();
  if (first.done === true) return;
  const head = first.value;
  async function* all(): AsyncGenerator<Buffer> {
    yield head;
    yield* chunks;
  }
  const isGzip = head[0] === 0x1f && head[1] === 0x8b;
  const whole = Readable.from(all());
  yield* (isGzip ? whole.compose(createGunzip()) : whole) as AsyncIterable<Buffer>;
}
