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

/** What there is of Checkpoints: what is in the cache, and the API server itself. */
export interface KnownCheckpoints {
  store: Pick<Informer<Checkpoint>["store"], "list">;
  resource: Pick<Informer<Checkpoint>["resource"], "list">;
}

/**
 * Frees, now and every ten minutes until `signal` is aborted, what crashes and lost objects left in the store. For the one
 * controller that leads. A sweep that fails is told and tried again at the next turn: nothing waits for it.
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
 * What the API knows of a checkpoint id. What was known when the sweep began may be outdated, so it can say that there is
 * an object, and the API server alone that there is none; where that does not answer, this throws, and the sweep ends.
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
