import { type BackoffOptions, type Clock, onAbort } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { type Log, silentLog } from "../base/log.ts";
import type { Informer } from "./informer.ts";
import type { Liveness } from "./liveness.ts";
import { type KubeObject, controllerOf, keyOf } from "./object.ts";
import type { Change } from "./store.ts";
import { type QueueItem, type QueueMetrics, WorkQueue } from "./work-queue.ts";

/**
 * Nothing, or when to reconcile the key again even if nothing changes. With a `failure`, the key is retried as after an error, and at
 * that time at the latest.
 */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- most reconciles return nothing
export type ReconcileResult = void | { requeueAfterMilliseconds?: number | undefined; failure?: RametError };

/** Reconciles the key again after the shortest of these times. Undefined: nothing is due. */
export function soonest(...milliseconds: readonly (number | undefined)[]): { requeueAfterMilliseconds?: number } {
  const due = milliseconds.filter((one) => one !== undefined);
  return due.length === 0 ? {} : { requeueAfterMilliseconds: Math.max(1, Math.min(...due)) };
}

/** An informer whose changes a controller gets; created by `watching`. */
export interface ControllerWatch {
  /** Calls `enqueue` for the keys of each change. @returns a function that ends the calls */
  start(enqueue: WorkQueue["add"]): () => void;
  synced(signal: AbortSignal): Promise<void>;
}

export interface ControllerMetrics extends QueueMetrics {
  reconciled(result: "success" | "requeue" | "error", milliseconds: number): void;
}

export interface ControllerOptions {
  /** In logs and metrics. */
  name: string;
  watches: ControllerWatch[];
  /**
   * Reconciles one key: level-triggered and repeatable. Errors are logged, and the key is retried after a growing pause. Never
   * runs concurrently for one key.
   */
  reconcile: (key: string, signal: AbortSignal) => Promise<ReconcileResult>;
  clock: Clock;
  /** The number of concurrent reconciles. @default 4 */
  concurrency?: number;
  backoff?: BackoffOptions;
  metrics?: ControllerMetrics;
  /** Fails if a reconcile does not end or no worker takes keys. */
  liveness?: Liveness | undefined;
  log?: Log;
  random?: () => number;
}

/**
 * How long to wait for running reconciles at the end. It must be shorter than the time between a lost lease's renew deadline
 * and its expiry (6 s and 8 s).
 */
const drainMilliseconds = 1_500;

/**
 * Runs a controller until `signal` is aborted: waits for the first lists, then reconciles the keys of changes. At the end
 * running reconciles may finish. After `drainMilliseconds` their signal is aborted, and they are not waited for: the process ends.
 *
 * @param onQueue receives the queue's `add`, to enqueue keys from sources other than informers
 */
export async function runController(
  options: ControllerOptions,
  signal: AbortSignal,
  onQueue?: (add: (key: string) => void) => void,
): Promise<void> {
  const { clock, backoff, metrics, random } = options;
  const queue = new WorkQueue({ clock, ...defined({ backoff, metrics, random }) });
  const add = (key: string): void => {
    queue.add(key);
  };
  const stops = options.watches.map((watch) =>
    watch.start((key, isSatisfied) => {
      queue.add(key, isSatisfied);
    }),
  );
  try {
    await Promise.all(options.watches.map((watch) => watch.synced(signal)));
    stops.push(...livenessChecks(options, queue));
    onQueue?.(add);
    await work(options, queue, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    for (const stop of stops) stop();
    void queue.shutDown();
  }
}

/**
 * Passes an informer's changes to a controller.
 *
 * @param keysOf the keys to reconcile for an object; of an update, those of both the old and the new object.
 *   Default: the object's own key
 * @param isSatisfied whether the object needs no work; called when no worker has its key. Default: it may
 */
export function watching<T extends KubeObject>(
  informer: Informer<T>,
  keysOf: (object: T) => readonly string[] = ownKey,
  isSatisfied: (object: T) => boolean = () => false,
): ControllerWatch {
  return {
    synced: (signal) => informer.synced(signal),
    start: (enqueue) =>
      informer.onChange((change) => {
        for (const key of keysOfChange(change, keysOf)) enqueue(key, () => isSatisfied(change.object));
      }),
  };
}

/** For `watching`: the key of the object's controlling owner, if that is of this kind. */
export function controllerKeys(kind: string, group: string): (object: KubeObject) => string[] {
  return (object) => {
    const owner = controllerOf(object);
    if (owner?.kind !== kind || owner.apiVersion.split("/")[0] !== group) return [];
    return [keyOf({ namespace: object.metadata.namespace, name: owner.name })];
  };
}

export function ownKey(object: KubeObject): string[] {
  return [keyOf(object.metadata)];
}

function keysOfChange<T>(change: Change<T>, keysOf: (object: T) => readonly string[]): Iterable<string> {
  const keys = keysOf(change.object);
  return change.type === "updated" ? new Set([...keys, ...keysOf(change.previous)]) : keys;
}

/** Added only once the workers run: until then, keys wait for the first lists. */
function livenessChecks({ name, liveness }: ControllerOptions, queue: WorkQueue): (() => void)[] {
  if (liveness === undefined) return [];
  return [
    liveness.add({
      waitingSince: () => queue.workingSince,
      describe: () => `A reconcile of the controller ${name} has not ended`,
    }),
    liveness.add({
      waitingSince: () => queue.waitingSince,
      describe: () => `No worker of the controller ${name} has taken a key of its queue`,
    }),
  ];
}

async function work(options: ControllerOptions, queue: WorkQueue, signal: AbortSignal): Promise<void> {
  const hard = new AbortController();
  const timeIsOver = Promise.withResolvers<undefined>();
  let cancelHard: () => void = () => undefined;
  const drain = (): void => {
    void queue.shutDown();
    cancelHard = options.clock.schedule(drainMilliseconds, () => {
      hard.abort(signal.reason);
      timeIsOver.resolve(undefined);
    });
  };
  const stop = onAbort(signal, drain);
  const workers = Array.from({ length: options.concurrency ?? 4 }, async () => {
    for (let item = await queue.take(); item !== undefined; item = await queue.take()) {
      await reconcileOne(options, queue, item, hard.signal);
    }
  });
  await Promise.race([Promise.all(workers), timeIsOver.promise]);
  cancelHard();
  stop();
}

async function reconcileOne(
  options: ControllerOptions,
  queue: WorkQueue,
  item: QueueItem,
  signal: AbortSignal,
): Promise<void> {
  const { clock, metrics } = options;
  const { key } = item;
  const started = clock.monotonicMilliseconds();
  const took = (): number => clock.monotonicMilliseconds() - started;
  try {
    const result = await options.reconcile(key, signal);
    const { requeueAfterMilliseconds: after, failure } = result ?? {};
    if (after !== undefined) queue.addAfter(key, after);
    if (failure !== undefined) throw failure;
    queue.forget(key);
    metrics?.reconciled(after === undefined ? "success" : "requeue", took());
  } catch (thrown) {
    metrics?.reconciled("error", took());
    if (!signal.aborted) logFailure(options, key, RametError.from(thrown), queue.retry(key));
  } finally {
    item.done();
  }
}

function logFailure(options: ControllerOptions, key: string, error: RametError, pauseMilliseconds: number): void {
  const log = options.log ?? silentLog;
  const fields = { controller: options.name, key, code: error.code, pauseMilliseconds: Math.round(pauseMilliseconds) };
  const message = `reconcile failed: ${error.describe()}`;
  // Conflicts and retryable errors are expected; others need a person's attention.
  if (error.retryable || error.code === "Conflict") log.debug(fields, message);
  else log.warn({ ...fields, ...(error.code === "Internal" ? { cause: error.cause } : {}) }, message);
}
