import { hostname } from "node:os";
import { controllersLease, systemNamespace } from "../api/names/system-names.ts";
import { createSystemNamespace } from "../backends/kept-secret.ts";
import { defined } from "../base/defined.ts";
import { type Log, silentLog } from "../base/log.ts";
import { runController } from "../kube/controller.ts";
import { EventRecorder } from "../kube/events.ts";
import type { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { runWhileLeading } from "../kube/lease.ts";
import type { Liveness } from "../kube/liveness.ts";
import type { KubeObject } from "../kube/object.ts";
import type { Controller } from "./cluster/controller-parts.ts";
import type { ControllersMetrics } from "./metrics.ts";

export interface ProcessOptions {
  client: KubeClient;
  /** Unique among the candidates. Absent: this is the only one, and it takes no lease. */
  leaderElection?: { identity: string };
  /** How many reconciles of one controller run concurrently; none waits for a cell. @default 16 */
  concurrency?: number | undefined;
  metrics?: ControllersMetrics;
  /** Fails if an informer or a controller stops. */
  liveness?: Liveness;
  log?: Log;
  /** Called when all informers have synced and all controllers reconcile. */
  onReady?: () => void;
}

/** Runs `work` while this process holds the lease of the controllers: two installations never work at the same time. */
export async function whileLeading(
  { client, leaderElection, log = silentLog }: ProcessOptions,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  if (leaderElection === undefined) {
    await work(signal);
    return;
  }
  await createSystemNamespace(client, signal);
  const lease = { client, namespace: systemNamespace, name: controllersLease, ...leaderElection, log };
  await runWhileLeading(lease, work, signal);
}

/** Records events as the controllers. */
export function eventRecorder({ client, leaderElection, log = silentLog }: ProcessOptions): EventRecorder {
  return new EventRecorder({
    client,
    reportingController: "ramet.dev/controllers",
    reportingInstance: leaderElection?.identity ?? hostname(),
    log,
  });
}

/** Runs informers, and `work` once they have synced, until `work` ends. */
export async function whileFollowing(
  informers: readonly Pick<Informer<KubeObject>, "run" | "synced">[],
  { liveness }: ProcessOptions,
  work: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const following = new AbortController();
  const followers = informers.map((informer) => informer.run(following.signal, liveness));
  try {
    // Every controller reads all caches: in one that has not synced, an existing object would seem to be deleted.
    await Promise.all(informers.map((informer) => informer.synced(signal)));
    await work();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    following.abort();
    await Promise.all(followers);
  }
}

interface Work {
  controllers: readonly Controller[];
  /** Work that repeats, until the same signal is aborted. */
  others: readonly (() => Promise<void>)[];
  events: EventRecorder;
}

/** Runs controllers and other work until `signal` is aborted. `onReady` is called when all controllers reconcile. */
export async function runTogether(
  options: ProcessOptions,
  { controllers, others, events }: Work,
  signal: AbortSignal,
): Promise<void> {
  const { client, concurrency = 16, liveness, metrics, onReady, log = silentLog } = options;
  const { clock, random } = client;
  const common = { clock, random, concurrency, liveness, backoff, log };
  let starting = controllers.length;
  const run = ({ name, watches, reconcile, requeues }: Controller) =>
    runController(
      { ...common, name, watches, reconcile, ...defined({ metrics: metrics?.forController(name) }) },
      signal,
      (add) => {
        requeues?.connect(add);
        if (--starting === 0) onReady?.();
      },
    );
  try {
    await Promise.all([...others.map((other) => other()), ...controllers.map(run)]);
  } finally {
    for (const { close } of controllers) close?.();
    await events.flush();
  }
}

const backoff = { baseMilliseconds: 50, maxMilliseconds: 60_000 };
