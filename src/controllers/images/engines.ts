import {
  type EngineBuild,
  type EngineState,
  type KnownEngine,
  type NeededEngine,
  engineId,
  engineState,
  enginesConfigMap,
  parseEngineList,
} from "../../api/engine/engine.ts";
import type { Checkpoint, CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { engineOfParts, memoryPart, partsOf } from "../../backends/checkpoint-record.ts";
import { changeEntries } from "../../backends/kept-secret.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { KubeClient } from "../../kube/kube-client.ts";

export interface EnginesOptions {
  cellImage: string;
  /** The engine of the current cell image, if it is known in advance. */
  cellEngine?: string | undefined;
  /** Cell images by engine that an administrator has named. They take precedence. */
  earlierCellImages?: ReadonlyMap<string, string> | undefined;
  /** How many named snapshots are captured again at the same time after an upgrade. @default 2 */
  concurrentUpgrades?: number | undefined;
}

/** The engines that the cluster remembers, and how a change is remembered. */
interface Memory {
  entries: ReadonlyMap<string, KnownEngine>;
  /** Resolves with whether the change is remembered. */
  save: (id: string, entry: KnownEngine | null) => Promise<boolean>;
  /** Reads the entries that the cluster remembers now. */
  read: (signal: AbortSignal) => Promise<ReadonlyMap<string, KnownEngine>>;
}

/**
 * The cell images of this installation, by engine. The current one runs new sandboxes. Memory of an earlier engine is restored
 * in the cell image that has it. The ConfigMap `ramet-engines` remembers them across upgrades.
 */
export class Engines {
  readonly cellImage: string;
  readonly concurrentUpgrades: number;
  readonly #entries: Map<string, KnownEngine>;
  readonly #memory: Memory | undefined;
  readonly #named: ReadonlySet<string>;
  /** The last save of each engine that this process has changed. */
  readonly #saves = new Map<string, Promise<boolean>>();
  readonly #listeners: (() => void)[] = [];

  constructor(options: EnginesOptions, memory?: Memory) {
    const { cellImage, cellEngine, earlierCellImages = new Map<string, string>(), concurrentUpgrades = 2 } = options;
    this.cellImage = cellImage;
    this.concurrentUpgrades = concurrentUpgrades;
    this.#memory = memory;
    this.#named = new Set(earlierCellImages.keys());
    this.#entries = new Map(memory?.entries);
    for (const [id, image] of earlierCellImages) this.#entries.set(id, { image, name: image });
    // A remembered entry knows more: the digest that a node has reported.
    if (cellEngine !== undefined && this.#entries.get(cellEngine)?.name !== cellImage)
      this.#put(cellEngine, { image: cellImage, name: cellImage });
  }

  /** Reads what the cluster remembers. */
  static async open(
    client: KubeClient,
    options: EnginesOptions,
    { log, signal }: { log: Log; signal: AbortSignal },
  ): Promise<Engines> {
    const read = async (aborting: AbortSignal) =>
      parseEngineList((await client.configMaps.find(at, { signal: aborting }))?.data);
    const save = async (id: string, entry: KnownEngine | null): Promise<boolean> => {
      try {
        await changeEntries(client, at, { [id]: entry && JSON.stringify(entry) });
        return true;
      } catch (error) {
        log.warn({ engine: id, error: RametError.from(error).describe() }, "remembering a cell image failed");
        return false;
      }
    };
    return new Engines(options, { entries: await read(signal), save, read });
  }

  list(): ReadonlyMap<string, KnownEngine> {
    return this.#entries;
  }

  stateOf(needed: NeededEngine): EngineState {
    return engineState(this.#entries, this.cellImage, needed);
  }

  /** Whether a cell with the current image has reported its engine. */
  isCurrentKnown(): boolean {
    return [...this.#entries.values()].some(({ name }) => name === this.cellImage);
  }

  /**
   * Whether memory of this engine was captured by another cell image than the current one. Until the engine of the current image
   * is known, it can turn out to be the same.
   */
  isEarlier(needed: NeededEngine): boolean {
    const own = needed.engineId === undefined ? undefined : this.#entries.get(needed.engineId);
    return own === undefined ? this.stateOf(needed) === "missing" : own.name !== this.cellImage;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** The engines that can be forgotten if nothing needs them: neither the current one nor one that an administrator has named. */
  droppable(): string[] {
    return [...this.#entries].flatMap(([id, { name }]) => (name === this.cellImage || this.#named.has(id) ? [] : [id]));
  }

  /** Forgets an engine. Resolves with its image when the cluster has forgotten it. Undefined: that failed, and it is kept. */
  async drop(id: string): Promise<string | undefined> {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    if (await this.#change(id, undefined)) return entry.image;
    // A cell may have reported it meanwhile.
    if (!this.#entries.has(id)) void this.#change(id, entry);
    return undefined;
  }

  /**
   * Remembers again what the cluster has lost: a save failed, somebody deleted the entry, or the drop of an earlier process,
   * to which this engine was not the current one, arrived late.
   */
  async saveMissing(signal: AbortSignal): Promise<void> {
    const remembered = await this.#memory?.read(signal);
    if (remembered === undefined) return;
    const missing = [...this.#entries].filter(([id]) => !remembered.has(id) && !this.#named.has(id));
    await Promise.all(missing.map(([id, entry]) => this.#saveInTurn(id, entry)));
  }

  /** The image of a Pod in which memory of this engine is restored. Without an engine: that of a new sandbox. */
  imageFor(needed: NeededEngine): string {
    const known = needed.engineId === undefined ? undefined : this.#entries.get(needed.engineId);
    return known === undefined || known.name === this.cellImage ? this.cellImage : known.image;
  }

  /** Why these parts cannot be restored: no cell image has the engine of their memory. */
  problemOf(parts: readonly CheckpointPart[], checkpointId: string): RametError | undefined {
    const { needs } = memoryPart(parts) ?? {};
    if (needs?.engineId === undefined || this.stateOf(needs) !== "missing") return undefined;
    const guest = needs.guest === undefined ? "" : `, guest ${needs.guest.slice(0, "sha256:".length + 12)}`;
    return new RametError(
      "EngineMissing",
      `The checkpoint ${checkpointId} cannot be restored: it needs the engine ${needs.engineId} (gVisor ${needs.engine}${guest}), and no known cell image has it`,
      {
        hint: `Name the cell image of the release that captured it: ramet controller --earlier-cell-image ${needs.engineId}=<image>`,
      },
    );
  }

  /**
   * Remembers the engine that a Pod's cell has reported. Resolves when the cluster remembers it, so that a crash leaves no
   * sandbox and no checkpoint with an engine that nobody can find again. A save that failed is repeated by the next report.
   */
  async learn(pod: Pick<Pod, "spec" | "status">, build: EngineBuild): Promise<void> {
    const [cell] = pod.spec.containers;
    const name = cell?.image;
    if (name === undefined) return;
    const id = engineId(build);
    const { architecture, version, guest } = build;
    const seen = { image: pinnedImage(pod, cell?.name) ?? name, name, architecture, version, guest };
    if (isNews(this.#entries.get(id), seen, this.cellImage)) this.#put(id, seen);
    else if ((await this.#saves.get(id)) === false) void this.#change(id, this.#entries.get(id) ?? seen);
    await this.#saves.get(id);
  }

  #put(id: string, entry: KnownEngine): void {
    // The tag of the current image was moved to another build. The earlier one is found by its digest, or not at all.
    for (const [other, before] of this.#entries) {
      if (other === id || before.name !== entry.name || !isSameArchitecture(before, entry)) continue;
      void this.#change(other, before.image === before.name ? undefined : { ...before, name: before.image });
    }
    void this.#change(id, entry);
  }

  /** Resolves with whether the cluster remembers the change. */
  #change(id: string, entry: KnownEngine | undefined): Promise<boolean> {
    if (entry === undefined) this.#entries.delete(id);
    else this.#entries.set(id, entry);
    const saving = this.#saveInTurn(id, entry ?? null);
    for (const listener of this.#listeners) listener();
    return saving;
  }

  /** After the save before it: the API server could carry out two requests in either order. */
  #saveInTurn(id: string, entry: KnownEngine | null): Promise<boolean> {
    if (this.#memory === undefined) return Promise.resolve(true);
    const { save } = this.#memory;
    const before = this.#saves.get(id);
    const saving = before === undefined ? save(id, entry) : before.then(() => save(id, entry));
    this.#saves.set(id, saving);
    return saving;
  }
}

/** The id of the engine that a checkpoint's memory needs. Undefined: it has no memory. */
export function engineOfCheckpoint({ status }: Checkpoint): string | undefined {
  return engineOfParts(partsOf(status?.ramet) ?? []);
}

export function neededEngine(parts: readonly CheckpointPart[]): NeededEngine {
  return memoryPart(parts)?.needs ?? {};
}

const at = { namespace: systemNamespace, name: enginesConfigMap };

/** Whether a report adds something: a new engine, the current image for a known one, or a digest. */
function isNews(known: KnownEngine | undefined, seen: Pick<KnownEngine, "name" | "image">, cellImage: string): boolean {
  if (known === undefined) return true;
  if (known.name !== seen.name) return seen.name === cellImage;
  return known.architecture === undefined || (known.image === known.name && seen.image !== seen.name);
}

function isSameArchitecture(a: KnownEngine, b: KnownEngine): boolean {
  return a.architecture === undefined || b.architecture === undefined || a.architecture === b.architecture;
}

/** The image with its digest, as the kubelet reports it. A node that has only imported the image reports no repository. */
function pinnedImage({ status }: Pick<Pod, "status">, container: string | undefined): string | undefined {
  const imageId = status?.containerStatuses?.find(({ name }) => name === container)?.imageID;
  return imageId !== undefined && /^[^@\s]+@sha256:[0-9a-f]{64}$/.test(imageId) ? imageId : undefined;
}
