import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sandboxSetKind, type SandboxSet } from "../../src/api/kinds/sandbox-set.ts";
import { Cluster } from "../../src/cli/cluster/cluster.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { waitUntil } from "../../src/kube/wait-until.ts";
import { StandInNode } from "../cluster/controllers-stand-in-node.ts";
import { startControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { controllerCounters, countedBetween } from "./controller-metrics.ts";
import { ControllerProcess } from "./controller-process.ts";

/** The time until all sandboxes of a new set were Ready. */
export interface PoolFill {
  replicas: number;
  /** From the user's write until the user's watch shows it. */
  seconds: number;
  /** The requests of the controller, per sandbox. */
  requests: number;
  writes: number;
  reconciles: number;
  /** The CPU time of the controller, for all sandboxes. */
  cpuSeconds: number;
  /** The memory of the controller, when they were ready. */
  residentMiB: number;
}

/**
 * Fills sets, one after another, with the real controller in its own process against a real API server, whose etcd does not
 * sync to disk. **The cells are simulated**: a stand-in for the node, in this process, binds each Pod and responds as a cell
 * immediately; nothing runs. It measures the controller's cost, not the start of sandboxes.
 */
export async function measurePools({ quick }: { quick: boolean }, signal: AbortSignal): Promise<PoolFill[]> {
  const controlPlane = await startControlPlane({ signal });
  const directory = await mkdtemp(join(tmpdir(), "ramet-pool-"));
  const end = new AbortController();
  const stops = [() => rm(directory, { recursive: true, force: true }), () => controlPlane.stop()];
  try {
    const controller = await ControllerProcess.start(controlPlane.kubeconfigPath, directory, signal);
    stops.push(() => controller.stop());
    const client = new KubeClient(controlPlane.connection);
    stops.push(() => client.close());
    const { stopped } = await new StandInNode().start({ client, controlPlane, directory, signal: end.signal });
    stops.push(() => {
      end.abort();
      // Ctrl-C also ends the API server, so pending requests never complete.
      return Promise.race([stopped, sleep(5_000)]);
    });
    const fills: PoolFill[] = [];
    // The first one is a warm-up and is discarded.
    for (const [number, replicas] of (quick ? [10, 50] : [20, 50, 100, 300]).entries()) {
      const fill = await fillOne({ client, controller, replicas, name: `pool-${number}`, signal });
      if (number > 0) fills.push(fill);
      process.stderr.write(`\rpool: ${replicas} in ${fill.seconds.toFixed(1)} s `);
    }
    process.stderr.write("\r\x1b[K");
    return fills;
  } finally {
    for (const stop of stops.toReversed()) await stop();
  }
}

interface FillRequest {
  client: KubeClient;
  controller: ControllerProcess;
  replicas: number;
  /** The name of the set and of its namespace. */
  name: string;
  signal: AbortSignal;
}

async function fillOne({ client, controller, replicas, name, signal }: FillRequest): Promise<PoolFill> {
  const { sets, sandboxes } = new Cluster(client, name);
  await makeNamespace(client, name);
  const before = { counters: await controllerCounters(controller.pid), cpuSeconds: await controller.cpuSeconds() };
  const since = performance.now();
  const from = await sets.create({
    apiVersion: sandboxSetKind.apiVersion,
    kind: "SandboxSet",
    metadata: { name, namespace: name },
    spec: { replicas, template: { spec: { containers: [{ name: "main", image: "python" }] } } },
  });
  const until = (set: SandboxSet | undefined): boolean => set?.status?.availableReplicas === replicas;
  await waitUntil({ resource: sets, from, until, timeoutMilliseconds, signal });
  const seconds = (performance.now() - since) / 1000;
  const [cpuSeconds, residentMiB] = [await controller.cpuSeconds(), await controller.residentMiB()];
  const counters = await controllerCounters(controller.pid);
  const counted = (metric: string, counts: (labels: string) => boolean = () => true): number => {
    const entries = [...countedBetween(before.counters, counters, metric)].filter(([labels]) => counts(labels));
    return entries.reduce((total, [, count]) => total + count, 0) / replicas;
  };
  await sets.delete(from.metadata, { signal });
  const deadline = performance.now() + timeoutMilliseconds;
  while ((await sandboxes.list({ namespace: name, signal })).items.length > 0) {
    if (performance.now() > deadline) throw new Error(`the sandboxes of ${name} were not deleted in time`);
    await sleep(250, undefined, { signal });
  }
  return {
    replicas,
    seconds,
    requests: counted("ramet_api_requests_total"),
    writes: counted("ramet_api_requests_total", (labels) => !/verb="(get|list|watch)"/.test(labels)),
    reconciles: counted("ramet_reconciles_total"),
    cpuSeconds: cpuSeconds - before.cpuSeconds,
    residentMiB,
  };
}

const timeoutMilliseconds = 180_000;
