import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Removal } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import type { Bucket, StoredObject } from "./bucket.ts";
import { checkpointPrefix, kindOf, namespacePrefix, publicationKey } from "./layout.ts";
import { findPublication, isUnreadable } from "./publication.ts";

/** What a bucket has, put together. */
export interface Inventory {
  checkpoints: Holding[];
  /** What probes that were killed have left. */
  probes: StoredObject[];
  /** Keys that are none of ours. */
  foreign: string[];
}

/** What a bucket has of one id, published or not. */
export interface Holding {
  ref: CheckpointRef;
  publication?: StoredObject;
  /** The files of each attempt to write it, in the order of the names of the attempts. */
  attempts: Map<string, StoredObject[]>;
}

/** Everything, or what one namespace has. */
export function inventory(bucket: Bucket, namespace?: string, signal?: AbortSignal): Promise<Inventory> {
  return inventoryBelow(bucket, namespace === undefined ? "" : namespacePrefix(namespace), signal);
}

/** What there is of one id; `undefined`: nothing. */
export async function inventoryOf(bucket: Bucket, ref: CheckpointRef): Promise<Holding | undefined> {
  return (await inventoryBelow(bucket, checkpointPrefix(ref))).checkpoints[0];
}

async function inventoryBelow(bucket: Bucket, prefix: string, signal?: AbortSignal): Promise<Inventory> {
  const holdings = new Map<string, Holding>();
  const holdingOf = (ref: CheckpointRef): Holding => {
    const name = `${ref.namespace}/${ref.checkpointId}`;
    const known = holdings.get(name) ?? { ref, attempts: new Map<string, StoredObject[]>() };
    holdings.set(name, known);
    return known;
  };
  const found: Omit<Inventory, "checkpoints"> = { probes: [], foreign: [] };
  for await (const object of bucket.list(prefix, signal)) {
    const key = kindOf(object.key);
    if (key === undefined) found.foreign.push(`${bucket.name}/${object.key}`);
    else if (key.kind === "probe") found.probes.push(object);
    else if (key.kind === "publication") holdingOf(key.ref).publication = object;
    else if (key.kind === "file") {
      const { attempts } = holdingOf(key.ref);
      attempts.set(key.attempt, [...(attempts.get(key.attempt) ?? []), object]);
    }
  }
  return { checkpoints: [...holdings.values()], ...found };
}

/** What there is of an id, told apart: the checkpoint's own files, and attempts that never became one. */
export interface Sorted {
  files: StoredObject[];
  rests: { attempt: string; files: StoredObject[] }[];
}

/**
 * A checkpoint has one attempt as a rule, and then that is its own; of several, the publication says which is. Where that
 * cannot be read, nothing is known to be a rest.
 */
export async function sorted(bucket: Bucket, { ref, publication, attempts }: Holding): Promise<Sorted> {
  const rests = [...attempts].map(([attempt, files]) => ({ attempt, files }));
  if (publication === undefined) return { files: [], rests };
  if (rests.length <= 1) return { files: rests[0]?.files ?? [], rests: [] };
  try {
    const own = (await findPublication(bucket, ref))?.attempt;
    return { files: attempts.get(own ?? "") ?? [], rests: rests.filter(({ attempt }) => attempt !== own) };
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return { files: [], rests: [] };
  }
}

export function bytesOf(files: readonly StoredObject[]): number {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/**
 * Takes the publication away, with which the checkpoint is gone as a whole, then its files. What a crash leaves after that is a
 * rest, and goes by a sweep.
 */
export async function removeCheckpoint(bucket: Bucket, ref: CheckpointRef, step: Step): Promise<Removal> {
  const holding = await inventoryOf(bucket, ref);
  if (holding?.publication === undefined) return { removed: false, freedBytes: 0 };
  const { files } = await sorted(bucket, holding);
  await bucket.delete(publicationKey(ref));
  await step("unpublished");
  await deleteAll(bucket, files, step);
  return { removed: true, freedBytes: bytesOf(files) };
}

export async function deleteAll(bucket: Bucket, objects: readonly StoredObject[], step: Step): Promise<void> {
  for (const { key } of objects) {
    await bucket.delete(key);
    await step("deleted");
  }
}
