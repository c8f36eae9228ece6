import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Removal } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import type { Bucket, StoredObject } from "./bucket.ts";
import { checkpointPrefix, findPublication, isUnreadable, kindOf, namespacePrefix, publicationKey } from "./layout.ts";

/** The objects of a bucket, grouped. */
export interface Inventory {
  checkpoints: Holding[];
  /** Objects left by interrupted probes. */
  probes: StoredObject[];
  /** Keys that Ramet did not create. */
  foreign: string[];
}

/** All objects of one checkpoint id, published or not. */
export interface Holding {
  ref: CheckpointRef;
  publication?: StoredObject;
  /** The files of each attempt, sorted by the name of the attempt. */
  attempts: Map<string, StoredObject[]>;
}

/** Lists the whole store or one namespace. */
export function inventory(bucket: Bucket, namespace?: string, signal?: AbortSignal): Promise<Inventory> {
  return inventoryBelow(bucket, namespace === undefined ? "" : namespacePrefix(namespace), signal);
}

/** Lists the objects of one id. `undefined`: there are none. */
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

/**
 * Separates the files of an id into those of the checkpoint and those of unpublished attempts. Normally there is one attempt, and its files are those of the checkpoint. If there are several,
 * the publication names the right one. If the publication is unreadable, no attempt counts as an orphan.
 */
export async function separateFiles(bucket: Bucket, { ref, publication, attempts }: Holding) {
  const orphans = [...attempts].map(([attempt, files]) => ({ attempt, files }));
  if (publication === undefined) return { files: [], orphans };
  if (orphans.length <= 1) return { files: orphans[0]?.files ?? [], orphans: [] };
  try {
    const own = (await findPublication(bucket, ref))?.attempt;
    return { files: attempts.get(own ?? "") ?? [], orphans: orphans.filter(({ attempt }) => attempt !== own) };
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return { files: [], orphans: [] };
  }
}

export function bytesOf(files: readonly StoredObject[]): number {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/**
 * Removes a checkpoint: first the publication, which removes it atomically, then its files. A crash in between leaves orphans,
 * which a sweep removes.
 */
export async function removeCheckpoint(bucket: Bucket, ref: CheckpointRef, step: Step): Promise<Removal> {
  const holding = await inventoryOf(bucket, ref);
  if (holding?.publication === undefined) return { removed: false, freedBytes: 0 };
  const { files } = await separateFiles(bucket, holding);
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
