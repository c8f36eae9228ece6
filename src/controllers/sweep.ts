import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { hasBegun, isUnfinished, layerIdsOf } from "../api/state/checkpoint.ts";
import { storeCodes } from "../api/store/store-report.ts";
import type { Backend, CheckpointLiveness, CheckpointName, Swept } from "../backends/backend.ts";
import { type Backends, capturesVolumes } from "../backends/backends.ts";
import { partsOf } from "../backends/checkpoint-record.ts";
import { type Clock, delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Informer } from "../kube/informer.ts";
import type { DataFindings } from "./cluster/data-findings.ts";
import type { StoreReports } from "./cluster/store-reports.ts";
import { dataNameOf, ownDataNameOf } from "./cluster/pause-checkpoint.ts";
import type { SweepMetrics } from "./metrics.ts";

export interface SweepingOptions {
  backends: Pick<Backends, "all">;
  checkpoints: KnownCheckpoints;
  dataFindings: Pick<DataFindings, "report" | "get">;
  storeReports: Pick<StoreReports, "checked">;
  clock: Clock;
  log: Log;
  metrics?: SweepMetrics;
  /** Pause between two sweeps. @default 600000 */
  pauseMilliseconds?: number;
  /** Pause between two samples. @default 30000 */
  samplePauseMilliseconds?: number;
}

/** The Checkpoints in the cache and in the API server. */
export interface KnownCheckpoints {
  /** Whether they include those of a namespace. @default of each */
  follows?: (namespace: string) => boolean;
  store: Pick<Informer<Checkpoint>["store"], "list">;
  resource: Pick<Informer<Checkpoint>["resource"], "list">;
  /** The sandboxes: those that run need the layers of their files, also when no Checkpoint has them any more. */
  sandboxes: Pick<Informer<Sandbox>["resource"], "list">;
}

/**
 * Frees data in the stores that crashes left or whose objects were deleted, and finds checkpoints whose data is missing: now, and
 * every ten minutes until `signal` is aborted. Runs in the leader only. A failed sweep finds nothing missing; it is logged and
 * retried at the next interval.
 *
 * In between, it samples the data of one checkpoint after the other, and sweeps early after a surprise: a store that was wiped, or
 * put back, is noticed within a minute, at the cost of one read each 30 seconds, however many checkpoints there are.
 */
export async function runSweeper(options: SweepingOptions, signal: AbortSignal): Promise<void> {
  const samples = new Samples(options);
  while (!signal.aborted) {
    await sweepOnce(options, signal);
    await untilNextSweep(samples, options, signal);
  }
}

async function untilNextSweep(
  samples: Samples,
  { clock, pauseMilliseconds = 600_000, samplePauseMilliseconds = 30_000 }: SweepingOptions,
  signal: AbortSignal,
): Promise<void> {
  const end = clock.monotonicMilliseconds() + pauseMilliseconds;
  for (;;) {
    const left = end - clock.monotonicMilliseconds();
    if (left <= 0) break;
    await delay(clock, Math.min(left, samplePauseMilliseconds), signal).catch(() => undefined);
    if (signal.aborted || (await samples.next())) return;
  }
  samples.forget();
}

/** Looks at the data of one checkpoint at a time. */
class Samples {
  readonly #options: SweepingOptions;
  readonly #surprises = new Set<string>();
  #turn = 0;

  constructor(options: SweepingOptions) {
    this.#options = options;
  }

  /**
   * Whether the data of the next checkpoint is missing or there, other than reported. An unknown answer is no surprise, nor is
   * the same one again: the sweep saw it differently.
   */
  async next(): Promise<boolean> {
    const { backends, checkpoints, dataFindings } = this.#options;
    const all = backends.all().flatMap((backend) => {
      if (backend.has === undefined) return [];
      const expected = dataIn(backend, checkpoints.store.list());
      return [...expected].map(([key, { anyOf, layers }]) => ({ key, all: [anyOf[0], ...layers] as const, backend }));
    });
    const sample = all[this.#turn++ % Math.max(1, all.length)];
    if (sample === undefined) return false;
    const found = await Promise.all(sample.all.map(async (data) => sample.backend.has?.(data).catch(() => undefined)));
    const isThere = found.includes(undefined) ? undefined : !found.includes(false);
    const isReportedMissing = dataFindings.get(sample.all[0])?.state === "missing";
    const surprise = `${sample.key} ${String(isThere)}`;
    if (isThere === undefined || isThere !== isReportedMissing || this.#surprises.has(surprise)) return false;
    this.#surprises.add(surprise);
    return true;
  }

  /** After ten minutes without a surprise. */
  forget(): void {
    this.#surprises.clear();
  }
}

async function sweepOnce(options: SweepingOptions, signal: AbortSignal): Promise<void> {
  const { backends, dataFindings, storeReports, metrics, log } = options;
  const results: SweepResult[] = [];
  for (const backend of backends.all()) results.push(await sweepBackend(backend, options, signal));
  if (signal.aborted) return;
  const isSwept = results.some(({ kept }) => kept !== undefined);
  const missing = compare(results, dataFindings);
  if (isSwept) metrics?.dataMissing(missing.length);
  if (missing.length > 0) log.warn(described(missing), "the data of checkpoints is missing in the store");
  await storeReports.checked({
    problem: results.find(({ problem }) => problem !== undefined)?.problem,
    dataMissing: isSwept ? missing.length : undefined,
  });
}

interface ExpectedData {
  /** The name of a finding, under which data is, and the other one under which it can be. */
  anyOf: [CheckpointName, CheckpointName?];
  /** The layers, without which that data is lost. */
  layers: CheckpointName[];
}

interface SweepResult {
  /** The checkpoints whose data must be there. */
  expected: ReadonlyMap<string, ExpectedData>;
  /** Those whose data was found. Undefined: it was not swept. */
  kept?: readonly CheckpointName[];
  /** Why the store cannot be used. */
  problem?: RametError | undefined;
}

/** A store that nothing can be written to may still be swept, so it is probed too. */
async function sweepBackend(
  backend: Backend,
  { checkpoints, log, metrics }: SweepingOptions,
  signal: AbortSignal,
): Promise<SweepResult> {
  // Before the sweep, as data that is published during it may not be listed.
  const expected = dataIn(backend, checkpoints.store.list());
  try {
    const swept = await backend.sweep?.(livenessIn(checkpoints, signal), signal);
    if (swept === undefined) return { expected: new Map() };
    metrics?.swept(swept);
    report(swept, log);
    const { problem } = await backend.probe();
    return { expected, kept: swept.kept, problem: ofStore(problem) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (signal.aborted) return { expected };
    metrics?.sweepFailed();
    log.warn({ backend: backend.name, error: error.describe() }, "sweeping the store failed");
    return { expected, problem: ofStore(error) };
  }
}

/** A cluster without VolumeSnapshots, for example, says nothing about the store. */
function ofStore(problem: RametError | undefined): RametError | undefined {
  return problem !== undefined && storeCodes.has(problem.code) ? problem : undefined;
}

/**
 * The data that finished checkpoints have in a backend, each once. A checkpoint of a paused sandbox shares memory and files with
 * others; its volumes are its own, or shared too.
 */
function dataIn(backend: Backend, checkpoints: readonly Checkpoint[]): Map<string, ExpectedData> {
  const lasting = checkpoints.filter(({ metadata, status }) => {
    const parts = status?.phase === "Succeeded" ? (partsOf(status.ramet) ?? []) : [];
    return metadata.deletionTimestamp === undefined && parts.some((part) => part.backend === backend.name);
  });
  const expected = lasting.map((one): ExpectedData =>
    capturesVolumes(backend)
      ? { anyOf: [ownDataNameOf(one), dataNameOf(one)], layers: [] }
      : { anyOf: [dataNameOf(one)], layers: layersOf(one) },
  );
  return new Map(expected.map((data) => [keyOfData(data.anyOf[0]), data]));
}

/**
 * Returns the data that is missing. The parts of a checkpoint are in several backends: it is present if none misses its part, and if
 * each of them could be swept.
 */
function compare(results: readonly SweepResult[], dataFindings: SweepingOptions["dataFindings"]): CheckpointName[] {
  const missing = new Map<string, CheckpointName>();
  const present = new Map<string, CheckpointName>();
  for (const { expected, kept } of results) {
    const found = new Set(kept?.map(keyOfData));
    if (kept === undefined) continue;
    const isFound = (name: CheckpointName | undefined): boolean => name !== undefined && found.has(keyOfData(name));
    for (const [key, { anyOf, layers }] of expected)
      (anyOf.some(isFound) && layers.every(isFound) ? present : missing).set(key, anyOf[0]);
  }
  const unknown = results.flatMap(({ expected, kept }) => (kept === undefined ? [...expected.keys()] : []));
  for (const key of [...missing.keys(), ...unknown]) present.delete(key);
  for (const name of present.values()) dataFindings.report(name, { state: "present" });
  for (const name of missing.values()) dataFindings.report(name, { state: "missing" });
  return [...missing.values()];
}

function described(missing: readonly CheckpointName[]): object {
  return { count: missing.length, checkpoints: missing.slice(0, mostNamed).map(keyOfData) };
}

const mostNamed = 20;

function report({ checkpoints, orphans, contents, freedBytes, foreign }: Swept, log: Log): void {
  for (const { namespace, checkpointId } of checkpoints) {
    log.info({ namespace, checkpointId }, "removed checkpoint data without an object from the store");
  }
  if (foreign.length > 0) log.warn({ paths: foreign }, "kept files in the store that do not belong to Ramet");
  if (checkpoints.length + orphans + contents > 0) log.info({ orphans, contents, freedBytes }, "swept the store");
}

/**
 * Returns whether a checkpoint has an object. Nothing is known of a namespace that is not followed, so its data stays: it is
 * reported as unfinished. The cache may be outdated: a checkpoint without an object in it is looked up in
 * the API server. If the API server does not respond, the function throws and the sweep ends.
 */
export function livenessIn(
  { store, resource, sandboxes, follows = () => true }: KnownCheckpoints,
  signal: AbortSignal,
): (name: CheckpointName) => Promise<CheckpointLiveness> {
  const known = new Map(store.list().flatMap((one) => dataOf(one).map((name) => [keyOfData(name), one] as const)));
  return async (name) => {
    const { namespace } = name;
    if (!follows(namespace)) return "unfinished";
    const isIt = (one: Checkpoint): boolean => dataOf(one).some((data) => keyOfData(data) === keyOfData(name));
    const found = known.get(keyOfData(name)) ?? (await resource.list({ namespace, signal })).items.find(isIt);
    if (found !== undefined) return isUnfinished(found) ? "unfinished" : "finished";
    const running = (await sandboxes.list({ namespace, signal })).items;
    if (running.some(({ status }) => status?.ramet?.layers?.includes(name.checkpointId))) return "finished";
    return store.list().some((one) => mayNeed(one, name, running)) ? "unfinished" : "absent";
  };
}

/** Whether a capture has begun whose sandbox is deleted: nobody knows on which layers its data is until that is adopted. */
function mayNeed(
  checkpoint: Checkpoint,
  { namespace }: CheckpointName,
  running: readonly Pick<Sandbox, "metadata">[],
): boolean {
  const { metadata, spec } = checkpoint;
  if (metadata.namespace !== namespace || !isUnfinished(checkpoint) || !hasBegun(checkpoint)) return false;
  return !running.some((sandbox) => sandbox.metadata.name === (spec.sandboxName ?? spec.podName));
}

/** The data of its own, that which it shares with another checkpoint, and its layers. A failed one needs none. */
function dataOf(checkpoint: Checkpoint): CheckpointName[] {
  const own = ownDataNameOf(checkpoint);
  if (checkpoint.status?.phase === "Failed") return [own];
  return [own, dataNameOf(checkpoint), ...layersOf(checkpoint)];
}

function layersOf(checkpoint: Checkpoint): CheckpointName[] {
  const { namespace } = checkpoint.metadata;
  return layerIdsOf(checkpoint).map((checkpointId) => ({ namespace, checkpointId }));
}

function keyOfData({ namespace, checkpointId }: CheckpointName): string {
  return `${namespace}/${checkpointId}`;
}
