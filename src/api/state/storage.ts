import type { Checkpoint } from "../kinds/checkpoint.ts";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import type { Sandbox } from "../kinds/sandbox.ts";
import { labels } from "../names/labels.ts";
import { group } from "../schema/kind.ts";
import { checkpointState, isAutomatic, isPauseCheckpoint, storedHandle } from "./checkpoint.ts";

/** Of all that something needs in the store: what nothing else needs, and what others need too. */
export interface StorageBytes {
  uniqueBytes: number;
  sharedBytes: number;
}

/** What a user deletes to free data: a named snapshot with its versions and steps, a paused sandbox, or a checkpoint. */
export interface Holder extends StorageBytes {
  kind: "snapshot" | "sandbox" | "checkpoint";
  namespace: string;
  name: string;
  /** The Checkpoints of versions, which stay when their named snapshot is deleted. */
  retained?: string[];
}

/** Data with one key. */
interface Stored {
  bytes: number;
  holders: Checkpoint[];
  /** The id of the Checkpoint that holds it as a layer, with its namespace. */
  layerId?: string | undefined;
}

/** Data that a Checkpoint has. */
interface Datum {
  key: string;
  bytes: number;
  layerId?: string;
}

interface Users {
  bytes: number;
  uids: ReadonlySet<string>;
}

/**
 * The data that Checkpoints have in the store, by their statuses alone, as users can change labels. Data is stored once under the digest
 * of its manifest, however many Checkpoints have it: those of one paused sandbox, and as a layer all whose files are on it, also after
 * the Checkpoint of the layer was deleted. Failed ones have none. The size of one that is being captured is 0 until it is known. Volumes
 * are not in the store.
 */
export class Storage {
  /** Those that have data. */
  readonly checkpoints: readonly Checkpoint[];
  readonly #stored = new Map<string, Stored>();
  #users: ReadonlyMap<string, Users> | undefined;

  /** @param sizeOf the size of what a Checkpoint has besides layers; undefined: unknown. Default: what its status says */
  constructor(checkpoints: readonly Checkpoint[], sizeOf: (one: Checkpoint) => number | undefined = recordedSize) {
    this.checkpoints = checkpoints.filter((one) => checkpointState(one) !== "failed");
    for (const one of this.checkpoints) for (const datum of dataOf(one, sizeOf)) this.#add(datum, one);
  }

  #add({ key, bytes, layerId }: Datum, holder: Checkpoint): void {
    const known = this.#stored.get(key);
    if (known === undefined) this.#stored.set(key, { bytes, holders: [holder], layerId });
    else {
      known.bytes = Math.max(known.bytes, bytes);
      known.holders.push(holder);
      known.layerId ??= layerId;
    }
  }

  /** The size of all data that Checkpoints have. */
  get usedBytes(): number {
    return sum([...this.#stored.values()]);
  }

  /** With the layers that only running sandboxes need: what counts towards the quota of a namespace. */
  usedWith(sandboxes: readonly Sandbox[]): number {
    const known = new Set([...this.#stored.values()].map(({ layerId }) => layerId));
    const others = [...layerSizesOf(sandboxes)].filter(([id]) => !known.has(id));
    return this.usedBytes + sum(others.map(([, bytes]) => ({ bytes })));
  }

  /**
   * The size of the data of some Checkpoints, with the layers below it. A cached step shares with what needs the step, but not the other
   * way round, as it is only kept to be used again; and nothing shares with a Checkpoint that is being deleted.
   */
  bytesOf(some: readonly Checkpoint[]): StorageBytes {
    const own = new Set(some.map(({ metadata }) => metadata.uid));
    const keys = new Set(some.flatMap((one) => dataOf(one, recordedSize).map(({ key }) => key)));
    this.#users ??= usersByKey(this.#stored);
    const needed = [...keys].flatMap((key) => this.#users?.get(key) ?? []);
    const [unique, shared] = [true, false].map((isOwn) => needed.filter(({ uids }) => isSubset(uids, own) === isOwn));
    return { uniqueBytes: sum(unique), sharedBytes: sum(shared) };
  }

  /**
   * How much the deletion of Checkpoints frees: what no other one has, also no cached step.
   * @param keptLayers the ids of layers that running sandboxes need, with their namespaces
   */
  freedBy(uids: ReadonlySet<string>, keptLayers: ReadonlySet<string> = new Set()): number {
    const freed = [...this.#stored.values()].filter(({ holders, layerId = "" }) => {
      const kept = holders.filter((one) => !isDeleted(one));
      return kept.length > 0 && kept.every(({ metadata }) => uids.has(metadata.uid)) && !keptLayers.has(layerId);
    });
    return sum(freed);
  }

  /** What holds the data, the largest unique data first. @param snapshots those that exist */
  holders(snapshots: readonly NamedSnapshot[]): Holder[] {
    const byUid = new Map(snapshots.map((snapshot) => [snapshot.metadata.uid, snapshot]));
    const all = this.checkpoints.map((one) => ({ one, holder: holderOf(one, byUid) }));
    const byHolder = Map.groupBy(all, ({ holder: { kind, namespace, name } }) => `${kind}/${namespace}/${name}`);
    return [...byHolder.values()]
      .flatMap((some) => {
        const bytes = this.bytesOf(some.map(({ one }) => one));
        const retained = some.flatMap(({ one, holder }) =>
          holder.isRetained && !isDeleted(one) ? one.metadata.name : [],
        );
        return some.slice(0, 1).map(({ holder: { kind, namespace, name } }) => ({
          kind,
          namespace,
          name,
          ...bytes,
          ...(retained.length > 0 && { retained }),
        }));
      })
      .filter(({ uniqueBytes, sharedBytes }) => uniqueBytes + sharedBytes > 0)
      .sort((a, b) => b.uniqueBytes - a.uniqueBytes || b.sharedBytes - a.sharedBytes || (a.name < b.name ? -1 : 1));
  }

  /** The Checkpoints of a named snapshot: of its versions, of its steps and of its sources. */
  ofSnapshot(uid: string): Checkpoint[] {
    return this.checkpoints.filter(({ metadata }) => metadata.labels?.[labels.snapshotUid] === uid);
  }
}

/** The ids of the layers that sandboxes run on, with their namespaces. @see Storage.freedBy */
export function layersInUse(sandboxes: readonly Sandbox[]): ReadonlySet<string> {
  return new Set(layerSizesOf(sandboxes).keys());
}

/** An earlier release recorded no sizes. */
function layerSizesOf(sandboxes: readonly Sandbox[]): Map<string, number> {
  const sizes = sandboxes.flatMap(({ metadata: { namespace }, status: { ramet } = {} }) =>
    (ramet?.layers ?? []).map((id, index) => [`${namespace}/${id}`, ramet?.layerBytes?.[index] ?? 0] as const),
  );
  return new Map(sizes);
}

function recordedSize({ status }: Checkpoint): number | undefined {
  return status?.ramet?.sizeBytes;
}

/** The data that a Checkpoint has. A layer has its own twice. */
function dataOf(checkpoint: Checkpoint, sizeOf: (one: Checkpoint) => number | undefined): Datum[] {
  const { metadata, status } = checkpoint;
  const keyOf = (id: string): string => `${metadata.namespace}/${id}`;
  const bytes = sizeOf(checkpoint);
  const layers = (status?.ramet?.parts ?? []).flatMap((part) => part.layers ?? []);
  return [
    ...(bytes === undefined ? [] : [{ key: keyOf(storedHandle(checkpoint) ?? metadata.uid), bytes }]),
    ...layers.map(({ checkpointId, manifestDigest, sizeBytes }) => ({
      key: keyOf(manifestDigest),
      bytes: sizeBytes,
      layerId: keyOf(checkpointId),
    })),
  ];
}

function usersByKey(stored: ReadonlyMap<string, Stored>): ReadonlyMap<string, Users> {
  return new Map([...stored].map(([key, { bytes, holders }]) => [key, { bytes, uids: usersOf(holders) }]));
}

/** Others need what a cached step has too, or nothing does. */
function usersOf(holders: readonly Checkpoint[]): ReadonlySet<string> {
  const kept = holders.filter((one) => !isDeleted(one));
  const users = kept.filter(({ metadata }) => metadata.labels?.[labels.purpose] !== "step");
  const found = [users, kept, holders].find((some) => some.length > 0) ?? [];
  return new Set(found.map(({ metadata }) => metadata.uid));
}

function isDeleted(checkpoint: Checkpoint): boolean {
  return checkpoint.metadata.deletionTimestamp !== undefined || checkpointState(checkpoint) === "deleting";
}

function isSubset(uids: ReadonlySet<string>, of: ReadonlySet<string>): boolean {
  return uids.size <= of.size && [...uids].every((uid) => of.has(uid));
}

function sum(some: readonly { bytes: number }[] = []): number {
  return some.reduce((total, { bytes }) => total + bytes, 0);
}

type Held = Pick<Holder, "kind" | "namespace" | "name"> & { isRetained?: boolean };

/** Steps, pauses and automatic checkpoints are deleted with their owners, and versions if their named snapshot says so. */
function holderOf(checkpoint: Checkpoint, snapshots: ReadonlyMap<string, NamedSnapshot>): Held {
  const { namespace, name, labels: own = {}, ownerReferences = [] } = checkpoint.metadata;
  const snapshot = snapshots.get(own[labels.snapshotUid] ?? "");
  if (snapshot !== undefined) {
    const isRetained = own[labels.purpose] === "version" && snapshot.spec.deletionPolicy !== "Delete";
    return { kind: "snapshot", namespace, name: snapshot.metadata.name, isRetained };
  }
  const owner =
    isPauseCheckpoint(checkpoint) || isAutomatic(checkpoint)
      ? ownerReferences.find(({ controller }) => controller === true)
      : undefined;
  return owner?.kind === "Sandbox" && owner.apiVersion.startsWith(`${group}/`)
    ? { kind: "sandbox", namespace, name: owner.name }
    : { kind: "checkpoint", namespace, name };
}
