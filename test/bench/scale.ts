import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startControlPlane } from "../setup/control-plane.ts";
import { controllerCounters, countedBetween, type Counters } from "./controller-metrics.ts";
import { ControllerProcess } from "./controller-process.ts";
import { FinishedObjects, nameOf, namespaceOf, type ObjectCounts } from "./finished-objects.ts";
import { measureReconcileLag, type ReconcileLag } from "./reconcile-lag.ts";

/** A start of the controller with this number of objects, and its reconcile lag after that. */
export interface ScalePoint {
  objects: ObjectCounts;
  /** From the start of the process until it reports its caches as synced, which the first reconciles delay. */
  syncedSeconds: number;
  /** From the start until its queues are empty and nothing is reconciled for a while. Excludes that while. */
  settledSeconds: number;
  /** User and system time until then. */
  cpuSeconds: number;
  reconciles: number;
  /** The requests of the start, by verb and resource. */
  requests: Record<string, number>;
  /** When it had settled. */
  residentMiB: number;
  /** The peak until then. */
  peakMiB: number;
  lag: ReconcileLag[];
}

/**
 * Starts the real controller in its own process against a real API server, whose etcd does not sync to disk, first with few
 * objects and then with many. **The objects are simulated**: a stand-in writes them as finished; see `FinishedObjects` for
 * the limits of that.
 *
 * @throws Error if a start writes anything but the CRDs, because the objects then were not idle, or if it does not reconcile
 *   each of them
 */
export async function measureScale(sandboxes: number, signal: AbortSignal): Promise<ScalePoint[]> {
  const controlPlane = await startControlPlane({ signal });
  const directory = await mkdtemp(join(tmpdir(), "ramet-scale-"));
  const stops = [() => rm(directory, { recursive: true, force: true }), () => controlPlane.stop()];
  try {
    const client = new KubeClient(controlPlane.connection);
    stops.push(() => client.close());
    await installCrds(client, signal);
    const world = { client, directory, kubeconfigPath: controlPlane.kubeconfigPath, signal };
    // The first start creates the objects that are created once, and is discarded.
    await withController(world, (started) => settled(started.controller));
    const objects = new FinishedObjects(client);
    const points: ScalePoint[] = [];
    for (const count of sandboxes > few ? [few, sandboxes] : [sandboxes]) {
      const counts = await objects.grow(count, signal);
      points.push(await withController(world, (started) => measurePoint(world, started, counts)));
    }
    return points;
  } finally {
    for (const stop of stops.toReversed()) await stop();
  }
}

const few = 200;

interface ScaleWorld {
  client: KubeClient;
  directory: string;
  kubeconfigPath: string;
  signal: AbortSignal;
}

interface StartedController {
  controller: ControllerProcess;
  since: number;
  syncedSeconds: number;
}

async function withController<T>(
  { kubeconfigPath, directory, signal }: ScaleWorld,
  work: (started: StartedController) => Promise<T>,
): Promise<T> {
  const since = performance.now();
  const controller = await ControllerProcess.start(kubeconfigPath, directory, signal, {
    timeoutMilliseconds: startMilliseconds,
  });
  try {
    return await work({ controller, since, syncedSeconds: secondsSince(since) });
  } finally {
    await controller.stop();
  }
}

async function measurePoint(
  { client, signal }: ScaleWorld,
  { controller, since, syncedSeconds }: StartedController,
  objects: ObjectCounts,
): Promise<ScalePoint> {
  const { counters, at } = await settled(controller);
  const [cpuSeconds, residentMiB, peakMiB] = [
    await controller.cpuSeconds(),
    await controller.residentMiB(),
    await controller.peakMiB(),
  ];
  const requests = requestsOf(counters);
  const reconciles = total(countedBetween(new Map(), counters, "ramet_reconciles_total"));
  // Each start reports the state of the store in a ConfigMap.
  const touched = Object.keys(requests).filter((name) =>
    /^(create|update|patch|delete) (?!customresource|configmaps)/.test(name),
  );
  if (touched.length > 0) throw new Error(`the start caused writes: ${touched.join(", ")}`);
  if (reconciles < objects.sandboxes + objects.checkpoints)
    throw new Error(`the start caused only ${reconciles} reconciles`);
  const sandboxes = Array.from({ length: Math.min(changed, objects.sandboxes) }, (_, number) => nameOf(number));
  return {
    objects,
    syncedSeconds,
    settledSeconds: (at - since) / 1000,
    cpuSeconds,
    reconciles,
    requests,
    residentMiB,
    peakMiB,
    lag: await measureReconcileLag(client, { namespace: namespaceOf(0), sandboxes, signal }),
  };
}

/** Sandboxes whose Pods become unready and ready again. */
const changed = 100;
const startMilliseconds = 300_000;

/** Reads until all queues are empty and nothing is reconciled. `at` is when that was first seen. */
async function settled(controller: ControllerProcess): Promise<{ counters: Counters; at: number }> {
  let before = await controllerCounters(controller.pid);
  for (let at = performance.now(); ;) {
    await sleep(100);
    const now = performance.now();
    const after = await controllerCounters(controller.pid);
    const waiting = total(countedBetween(new Map(), after, "ramet_queue_depth"));
    if (waiting > 0 || countedBetween(before, after, "ramet_reconciles_total").size > 0) at = performance.now();
    else if (now - at > quietMilliseconds) return { counters: after, at };
    before = after;
  }
}

const quietMilliseconds = 3_000;

function requestsOf(counters: Counters): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [labels, count] of countedBetween(new Map(), counters, "ramet_api_requests_total")) {
    const value = (name: string): string => new RegExp(`\\b${name}="([^"]*)"`).exec(labels)?.[1] ?? "";
    const name = [`${value("verb")} ${value("resource")}`, value("subresource")].filter(Boolean).join("/");
    sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

function total(counts: Map<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function secondsSince(since: number): number {
  return (performance.now() - since) / 1000;
}
