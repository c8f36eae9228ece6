import { type Checkpoint, dataAvailable } from "../../api/kinds/checkpoint.ts";
import type { CheckpointName } from "../../backends/backend.ts";
import type { Backends } from "../../backends/backends.ts";
import { findParts } from "../../backends/checkpoint-parts.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { keyOf } from "../../kube/object.ts";
import type { Cache } from "./cache.ts";
import { dataNameOf, ownDataNameOf } from "./pause-checkpoint.ts";

/**
 * The finding about a checkpoint's data. `missing` and `present`: a sweep of the store has not found or has found it. `damaged` and
 * `restored`: a restore has read it.
 */
export type DataFinding = { state: "missing" | "present" | "restored" } | { state: "damaged"; error: RametError };

/**
 * The findings of sweeps and restores about the data of checkpoints, for the controller that reports it. Kept in memory only:
 * the next sweep finds it again. Nothing is concluded from a store that cannot be read.
 */
export class DataFindings {
  readonly #cache: Pick<Cache, "checkpointById" | "checkpointsOfData">;
  readonly #found = new Map<string, DataFinding>();
  readonly #listeners: ((key: string) => void)[] = [];

  constructor(cache: Pick<Cache, "checkpointById" | "checkpointsOfData">) {
    this.#cache = cache;
  }

  /** @param name identifies the data, which several checkpoints may share */
  get(name: CheckpointName): DataFinding | undefined {
    return this.#found.get(idOf(name));
  }

  /** The finding about a checkpoint: the worse one of those about its data and about the volumes that only it has. */
  of(checkpoint: Checkpoint): DataFinding | undefined {
    const found = [this.get(dataNameOf(checkpoint)), this.get(ownDataNameOf(checkpoint))];
    return found.find((one) => one !== undefined && !isGood(one)) ?? found.find((one) => one !== undefined);
  }

  /** Good news counts only for a checkpoint about which there were bad ones, so that it costs nothing otherwise. */
  report(name: CheckpointName, finding: DataFinding): void {
    const { namespace, checkpointId } = name;
    const own = this.#cache.checkpointById(namespace, checkpointId) ?? [];
    const checkpoints = [...new Set([...this.#cache.checkpointsOfData(namespace, checkpointId)].concat(own))];
    if (isGood(finding) && !this.#found.has(idOf(name)) && !checkpoints.some(isReported)) return;
    this.#found.set(idOf(name), finding);
    for (const { metadata } of checkpoints) for (const listener of this.#listeners) listener(keyOf(metadata));
  }

  /** For data that was removed with its last checkpoint. */
  forget(name: CheckpointName): void {
    this.#found.delete(idOf(name));
  }

  /** `listener` gets the key of each Checkpoint with the data of a new finding. */
  subscribe(listener: (key: string) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Reports the outcome of a restore. Whether the data is missing or damaged, only the store can tell. A cell cannot tell an empty
   * store from one that is not mounted there.
   */
  async reportRestore(name: CheckpointName, backends: Backends, thrown?: unknown): Promise<void> {
    if (thrown === undefined) {
      this.report(name, { state: "restored" });
      return;
    }
    const error = RametError.from(thrown);
    const isLost = error.code === "CheckpointLost";
    if (!isLost && error.code !== "StoreUnavailable") return;
    try {
      await findParts(backends, name);
      if (isLost) this.report(name, { state: "damaged", error });
    } catch (problem) {
      if (RametError.from(problem).code === "CheckpointLost") this.report(name, { state: "missing" });
    }
  }
}

function isGood({ state }: DataFinding): boolean {
  return state === "present" || state === "restored";
}

function isReported({ status }: Checkpoint): boolean {
  return findCondition(status?.conditions, dataAvailable)?.status === "False";
}

function idOf({ namespace, checkpointId }: CheckpointName): string {
  return `${namespace}/${checkpointId}`;
}
