import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import type { Backend, CheckpointLiveness, CheckpointName, Swept } from "../backends/backend.ts";
import type { Backends } from "../backends/backends.ts";
import { type Clock, delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Informer } from "../kube/informer.ts";
import type { SweepMetrics } from "./metrics.ts";
import { checkpointIdOf, isUnfinished } from "./common/pause-checkpoint.ts";

export interface SweepingOptions {
  backends: Pick<Backends, "all">;
  checkpoints: KnownCheckpoints;
  clock: Clock;
  log: Log;
  metrics?: SweepMetrics;
  /** Between two sweeps. @default 600000 */
  pauseMilliseconds?: number;
}

/** The known Checkpoints: those in the cache, and the API server. */
export interface KnownCheckpoints {
  store: Pick<Informer<Checkpoint>["store"], "list">;
  resource: Pick<Informer<Checkpoint>["resource"], "list">;
}

/**
 * Frees data that crashes and lost objects left in the stores: now, and every ten minutes until `signal` aborts. Runs in the
 * leading controller only. A failed sweep is logged and repeated at the next turn.
 */
export async function keepSwept(options: SweepingOptions, signal: AbortSignal): Promise<void> {
  const { clock, pauseMilliseconds = 600_000 } = options;
  while (!signal.aborted) {
    await sweepOnce(options, signal);
    await delay(clock, pauseMilliseconds, signal).catch(() => undefined);
  }
}

async function sweepOnce(options: SweepingOptions, signal: AbortSignal): Promise<void> {
  for (const backend of options.backends.all()) await sweepBackend(backend, options, signal);
}

async function sweepBackend(
  backend: Backend,
  { checkpoints, log, metrics }: SweepingOptions,
  signal: AbortSignal,
): Promise<void> {
  try {
    const swept = await backend.sweep?.(livenessIn(checkpoints, signal), signal);
    if (swept === undefined) return;
    metrics?.swept(swept);
    report(swept, log);
  } catch (thrown) {
    if (signal.aborted) return;
    metrics?.sweepFailed();
    log.warn({ error: RametError.from(thrown).describe() }, "the store was not swept to the end");
  }
}

function report({ checkpoints, orphans, contents, freedBytes, foreign }: Swept, log: Log): void {
  for (const { namespace, checkpointId } of checkpoints) {
    log.info({ namespace, checkpointId }, "data of a Checkpoint that is gone was removed from the store");
  }
  if (foreign.length > 0) log.warn({ paths: foreign }, "these are in the store and not Ramet's; they were left alone");
  if (checkpoints.length + orphans + contents > 0) log.info({ orphans, contents, freedBytes }, "the store was swept");
}

/**
 * Returns whether a checkpoint has an object. The cache may be outdated, so it can only confirm that the object exists; that
 * it does not exist is asked of the API server. If the API server does not respond, the function throws and the sweep ends.
 */
export function livenessIn(
  { store, resource }: KnownCheckpoints,
  signal: AbortSignal,
): (name: CheckpointName) => Promise<CheckpointLiveness> {
  const known = new Map(store.list().map((checkpoint) => [keyOfData(dataOf(checkpoint)), checkpoint]));
  return async (name) => {
    const { namespace } = name;
    const isIt = (checkpoint: Checkpoint): boolean => keyOfData(dataOf(checkpoint)) === keyOfData(name);
    const found = known.get(keyOfData(name)) ?? (await resource.list({ namespace, signal })).items.find(isIt);
    if (found === undefined) return "absent";
    return isUnfinished(found) ? "unfinished" : "finished";
  };
}

function dataOf({ metadata, status }: Checkpoint): CheckpointName {
  return { namespace: metadata.namespace, checkpointId: status?.checkpointId ?? checkpointIdOf(metadata) };
}

function keyOfData({ namespace, checkpointId }: CheckpointName): string {
  return `${namespace}/${checkpointId}`;
}
