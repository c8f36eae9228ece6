import { hostname } from "node:os";
import type { Checkpoint } from "../api/checkpoint.ts";
import type { Sandbox } from "../api/sandbox.ts";
import { cellBackend, type CellBackend, type CellBackendOptions } from "../backends/cell.ts";
import type { CheckpointRecord } from "../backends/backend.ts";
import type { CellCredentials } from "../backends/cell-credentials.ts";
import { runController } from "../kube/controller.ts";
import { EventRecorder } from "../kube/events.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { runWhileLeading } from "../kube/lease.ts";
import { silentLog, type Log } from "../kube/log.ts";
import { StatusWriter } from "../kube/status-writer.ts";
import { Attempts } from "./attempts.ts";
import { createCache } from "./cache.ts";
import { checkpointWatches, reconcileCheckpoint } from "./checkpoint/controller.ts";
import { clusterCredentials, createSystemNamespace, systemNamespace } from "./identity.ts";
import { installCrds } from "./install-crds.ts";
import type { ControllersMetrics } from "./metrics.ts";
import { OwnWrites } from "../kube/own-writes.ts";
import { createInformers, type Informers } from "./resources.ts";
import { reconcileSandbox, sandboxWatches } from "./sandbox/controller.ts";
import type { SandboxDependencies } from "./sandbox/dependencies.ts";
import { NewPods } from "./sandbox/new-pods.ts";
import { SlowStart } from "./slow-start.ts";
import { keepSwept } from "./sweep.ts";

export interface RunControllersOptions {
  client: KubeClient;
  /** Where checkpoints are kept. */
  store: CellBackendOptions["store"];
  /** The image with the cell, gVisor, guest and link. */
  cellImage: string;
  /** What every sandbox's DNS relay asks and its outbound proxy allows. */
  dns?: SandboxDependencies["podOptions"]["dns"];
  egress?: SandboxDependencies["podOptions"]["egress"];
  /** Unlike every other candidate's; absent: there is no other, and no lease is taken. */
  leaderElection?: { identity: string };
  /** Bring the CRDs to this version first. @default false */
  installCrds?: boolean;
  /** How many reconciles of one controller may run at once; none waits for a cell's work. @default 16 */
  concurrency?: number;
  metrics?: ControllersMetrics;
  log?: Log;
  /** Called when all that exists is known and reconciling has begun. */
  onReady?: () => void;
  signal: AbortSignal;
}

/**
 * Runs the Sandbox and Checkpoint controllers until `signal` is aborted; reconciles that run then may finish. What cells
 * do at that time they bring to an end, and whoever runs next joins or finds it.
 * @throws RametError `Unavailable` if the lease was lost: the process has to end
 */
export async function runControllers(options: RunControllersOptions): Promise<void> {
  const { client, leaderElection, signal, log = silentLog } = options;
  if (options.installCrds ?? false) await installCrds(client, signal);
  if (leaderElection === undefined) {
    await lead(options, signal);
    return;
  }
  await createSystemNamespace(client, signal);
  const { identity } = leaderElection;
  const lease = { client, namespace: systemNamespace, name: "ramet-controllers", identity, log };
  await runWhileLeading(lease, (leading) => lead(options, leading), signal);
}

async function lead(options: RunControllersOptions, signal: AbortSignal): Promise<void> {
  const { client, store, log = silentLog } = options;
  const credentials = await clusterCredentials(client, signal);
  const backend = cellBackend({ credentials, store, clock: client.clock });
  const informers = createInformers(client, log);
  const all = [informers.sandboxes, informers.pods, informers.checkpoints, informers.templates];
  const following = new AbortController();
  const followers = all.map((informer) => informer.run(following.signal));
  try {
    // Every controller looks into all of them, whatever it hears of: who is not listed yet is not gone.
    await Promise.all(all.map((informer) => informer.synced(signal)));
    await work(options, { backend, credentials, informers }, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    following.abort();
    await Promise.all(followers);
    backend.close();
  }
}

interface Parts {
  backend: CellBackend;
  credentials: CellCredentials;
  informers: Informers;
}

async function work(options: RunControllersOptions, parts: Parts, signal: AbortSignal): Promise<void> {
  const { client, cellImage, dns, egress, log = silentLog, onReady } = options;
  const { clock, random } = client;
  const { informers } = parts;
  const events = new EventRecorder({
    client,
    reportingController: "ramet.dev/controllers",
    reportingInstance: options.leaderElection?.identity ?? hostname(),
    log,
  });
  const shared = { ...parts, cache: createCache(informers), events, clock, log };
  const queues = { sandbox: noQueue, checkpoint: noQueue };
  const sandboxes: SandboxDependencies = {
    ...shared,
    client,
    podOptions: { cellImage, ...(dns && { dns }), ...(egress && { egress }) },
    statuses: new StatusWriter<Sandbox>(informers.sandboxes.resource),
    ownWrites: new OwnWrites(informers.sandboxes, clock),
    starts: new Attempts({ clock, random }),
    newPods: new NewPods(informers.pods, clock),
    slowStart: new SlowStart(clock),
    enqueue: (key) => {
      queues.sandbox(key);
    },
  };
  const checkpoints = {
    ...shared,
    statuses: new StatusWriter<Checkpoint>(informers.checkpoints.resource),
    ownWrites: new OwnWrites(informers.checkpoints, clock),
    cuts: new Attempts<CheckpointRecord>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    taking: new Map<string, string>(),
    enqueue: (key: string) => {
      queues.checkpoint(key);
    },
  };
  informers.pods.store.subscribe((change) => {
    if (change.type === "deleted") sandboxes.starts.forget(change.object.metadata.uid);
  });
  const common = { clock, random, concurrency: options.concurrency ?? 16, backoff, log };
  const ready = countdown(2, onReady);
  const sweeping = {
    ...{ backend: parts.backend, checkpoints: informers.checkpoints, clock, log },
    ...(options.metrics && { metrics: options.metrics.sweeps }),
  };
  try {
    await Promise.all([
      keepSwept(sweeping, signal),
      runController(
        {
          ...common,
          name: "sandbox",
          watches: sandboxWatches(sandboxes),
          reconcile: (key) => reconcileSandbox(key, sandboxes),
          ...(options.metrics && { metrics: options.metrics.forController("sandbox") }),
        },
        signal,
        (add) => {
          queues.sandbox = add;
          ready();
        },
      ),
      runController(
        {
          ...common,
          name: "checkpoint",
          watches: checkpointWatches(checkpoints),
          reconcile: (key) => reconcileCheckpoint(key, checkpoints),
          ...(options.metrics && { metrics: options.metrics.forController("checkpoint") }),
        },
        signal,
        (add) => {
          queues.checkpoint = add;
          ready();
        },
      ),
    ]);
  } finally {
    sandboxes.starts.close();
    checkpoints.cuts.close();
    await events.flush();
  }
}

const backoff = { baseMilliseconds: 50, maxMilliseconds: 60_000 };
/** A checkpoint whose cell cannot be reached for that long has failed. */
const unreachableMilliseconds = 30_000;

function noQueue(_key: string): void {
  // Nothing is enqueued before the queues are there.
}

function countdown(count: number, then: (() => void) | undefined): () => void {
  let left = count;
  return () => {
    if (--left === 0) then?.();
  };
}
