import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { ResolvedCheckpointSpec } from "../../api/kinds/checkpoint-spec.ts";
import { type Exhausted, quotaExceeded } from "../../api/quota/namespace-quota.ts";
import { checkpointState, isUnfinished } from "../../api/state/checkpoint.ts";
import { Storage } from "../../api/state/storage.ts";
import { type CheckpointRecord, partsOf } from "../../backends/checkpoint-record.ts";
import type { RametError } from "../../base/errors.ts";
import type { Attempt } from "../cluster/attempts.ts";
import type { Cache } from "../cluster/cache.ts";
import type { NamespaceQuotas } from "../cluster/resources.ts";
import { capturedPodUid } from "../cluster/pause-checkpoint.ts";

/** Whether a checkpoint may be taken, and how large it may be. */
export type Admission = { maxBytes?: number } | { problem: RametError };

interface Counted {
  checkpoint: Checkpoint;
  checkpointId: string;
  capture: Attempt<CheckpointRecord> | undefined;
  spec: Pick<ResolvedCheckpointSpec, "keepRunning"> | { problem: RametError };
  /** With a `dataId`, it shares data that the namespace has already. */
  source: object;
  /** It saves a sandbox whose Pod is being ended, which would be lost without it. */
  isOfDisruption?: boolean;
}

/**
 * The share of its quota that the checkpoints of each namespace use: those in the informers' cache that have data or are being captured,
 * whatever they were created for, and those that this process has started and the cache does not show yet. Failed checkpoints
 * have no data and do not count. Everything is computed from the objects, so a restart changes nothing.
 */
export class CheckpointUsage {
  readonly #cache: Pick<Cache, "checkpointsIn" | "sandboxesIn">;
  readonly #quotas: Pick<NamespaceQuotas, "of">;
  /** By UID: the checkpoints that this process has started, and their sizes when they are known. */
  readonly #started = new Map<string, { sizeBytes: number }>();

  constructor(cache: Pick<Cache, "checkpointsIn" | "sandboxesIn">, quotas: Pick<NamespaceQuotas, "of">) {
    this.#cache = cache;
    this.#quotas = quotas;
  }

  /**
   * The quota of a checkpoint, before its capture and, if its source keeps running, after it. A sandbox that was captured to be
   * stopped is paused: its checkpoint is kept, as the sandbox would be lost without it.
   */
  of({ checkpoint, checkpointId, capture, spec, source, isOfDisruption = false }: Counted): Admission {
    if (!isUnfinished(checkpoint)) return {};
    if (capture === undefined) return isOfDisruption ? {} : this.#admission(checkpoint, source);
    if (capture.state !== "done") return {};
    const problem = this.#excess({
      ...checkpoint,
      status: { ...checkpoint.status, checkpointId, ramet: capture.value },
    });
    const isKept = problem === undefined || "problem" in spec || !spec.keepRunning;
    return isKept ? {} : { problem };
  }

  /** Counts a checkpoint whose capture starts now. */
  start({ metadata }: Checkpoint): void {
    this.#started.set(metadata.uid, { sizeBytes: 0 });
  }

  /** Asked before a capture. One that has started before, with another controller, has its place already. */
  #admission(checkpoint: Checkpoint, source: object): Admission {
    const quota = this.#quotas.of(checkpoint.metadata.namespace);
    const hasPlace = capturedPodUid(checkpoint) !== undefined;
    if ("problem" in quota) return hasPlace ? {} : quota;
    const others = this.#others(checkpoint);
    if (!hasPlace && others.length >= quota.checkpoints)
      return this.#refused(checkpoint, { quota: "checkpoints", limit: quota.checkpoints, used: others.length });
    if (quota.storeBytes === Infinity || "dataId" in source) return {};
    const bytes = this.#bytesOf(checkpoint, others);
    const maxBytes = Math.max(0, quota.storeBytes - bytes);
    if (!hasPlace && maxBytes === 0)
      return this.#refused(checkpoint, { quota: "storeBytes", limit: quota.storeBytes, used: bytes });
    return { maxBytes };
  }

  /**
   * Asked when the size of a captured checkpoint is known: captures that ran concurrently can exceed the quota together. The
   * size counts from now on. Data that the namespace has already adds nothing.
   */
  #excess(checkpoint: Checkpoint): RametError | undefined {
    const quota = this.#quotas.of(checkpoint.metadata.namespace);
    const limit = "problem" in quota ? Infinity : quota.storeBytes;
    this.#started.set(checkpoint.metadata.uid, { sizeBytes: checkpoint.status?.ramet?.sizeBytes ?? 0 });
    if (limit === Infinity) return undefined;
    const others = this.#others(checkpoint);
    const used = this.#bytesOf(checkpoint, [...others, checkpoint]);
    if (used <= Math.max(limit, this.#bytesOf(checkpoint, others))) return undefined;
    return this.#refused(checkpoint, { quota: "storeBytes", limit, used }).problem;
  }

  /** Adds the quota to the error of a cell that has found the checkpoint too large. Other errors are returned unchanged. */
  explain(checkpoint: Checkpoint, error: RametError): RametError {
    const quota = this.#quotas.of(checkpoint.metadata.namespace);
    if (error.code !== "QuotaExceeded" || "problem" in quota || quota.storeBytes === Infinity) return error;
    const used = this.#bytesOf(checkpoint, this.#others(checkpoint));
    return this.#refused(checkpoint, { quota: "storeBytes", limit: quota.storeBytes, used }, error.message).problem;
  }

  /** The cache shows the end of the checkpoint, or it no longer exists. */
  forget(uid: string): void {
    this.#started.delete(uid);
  }

  #others({ metadata: { namespace, uid } }: Checkpoint): Checkpoint[] {
    return this.#cache.checkpointsIn(namespace).filter((one) => one.metadata.uid !== uid && this.#hasPlace(one));
  }

  #bytesOf({ metadata: { namespace } }: Checkpoint, checkpoints: readonly Checkpoint[]): number {
    return new Storage(
      checkpoints,
      ({ metadata, status }) => status?.ramet?.sizeBytes ?? this.#started.get(metadata.uid)?.sizeBytes,
    ).usedWith(this.#cache.sandboxesIn(namespace));
  }

  #hasPlace(checkpoint: Checkpoint): boolean {
    const { metadata, status } = checkpoint;
    if (checkpointState(checkpoint) === "failed") return false;
    return (
      partsOf(status?.ramet) !== undefined ||
      this.#started.has(metadata.uid) ||
      capturedPodUid(checkpoint) !== undefined
    );
  }

  #refused(
    { metadata: { namespace } }: Checkpoint,
    reached: Pick<Exhausted, "quota" | "limit" | "used">,
    what = "The checkpoint was not taken",
  ): { problem: RametError } {
    const remedy = "Delete checkpoints that you do not need";
    return { problem: quotaExceeded(what, { ...reached, namespace, remedy }) };
  }
}
