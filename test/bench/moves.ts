import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { PodDirectory } from "../../src/local/node/pod-directory.ts";
import { type Cluster, type ClusterOptions, openCluster } from "../cluster/controllers-cluster.ts";
import { realNode } from "../cluster/controllers-real-node.ts";
import { descendants, processesWith } from "../faults/processes.ts";
import { cpuSecondsWithEnded } from "./cpu-of-processes.ts";
import { summary, type Summary } from "./samples.ts";
import { firstAnswer, workloadCommand, workloadPort } from "./workload.ts";

/** What it costs that a sandbox survives the end of its Pod. */
export interface Moves {
  /** From the last answer of the evicted sandbox to the first one in the next Pod. */
  downtimes: { sizeMiB: number; milliseconds: Summary }[];
  /** All sandboxes of a node are evicted at the same time. */
  drain: { sandboxes: number; podsGoneSeconds: number; answeringSeconds: number };
  scheduled: ScheduledCosts[];
  /** Of the controllers, in the minutes of all these sandboxes. */
  controllersCpuSeconds: number;
}

/** The automatic checkpoints of a sandbox with `checkpoint-every: 1m`. */
export interface ScheduledCosts {
  program: "idle" | "busy";
  checkpoints: number;
  /** Of all these checkpoints: what the store did not have before. */
  addedMiB: number;
  /** Of its cell and its gVisor, with the commands that they run. */
  cpuSeconds: number;
  /** Of the same program in a sandbox without automatic checkpoints, in the same minutes. */
  cpuSecondsWithout: number;
}

export interface MovesOptions {
  n: number;
  sizesMiB: readonly number[];
  sandboxes: number;
  minutes: number;
}

const namespace = "moves";

/**
 * Evicts real sandboxes of a real node. The next Pod runs on the same node, and the store is a directory: these are the costs
 * without those of a network.
 */
export async function measureMoves(options: MovesOptions, signal: AbortSignal): Promise<Moves> {
  let pods = "";
  const startNode: ClusterOptions["startNode"] = (context) => {
    pods = join(context.directory, "node", "pods");
    return realNode()(context);
  };
  const cluster = await openCluster({ startNode, allApis: true, ownProcess: true });
  try {
    await cluster.namespace(namespace);
    const bench = new MovesBench(cluster, pods, signal);
    const downtimes: Moves["downtimes"] = [];
    for (const sizeMiB of options.sizesMiB) {
      downtimes.push({ sizeMiB, milliseconds: await bench.downtimes(sizeMiB, options.n) });
    }
    return {
      downtimes,
      drain: await bench.drain(options.sandboxes),
      ...(await bench.scheduled(options.minutes)),
    };
  } finally {
    process.stderr.write("\r\x1b[K");
    await cluster.close();
  }
}

class MovesBench {
  readonly #cluster: Cluster;
  /** The directory of the node's Pods. */
  readonly #pods: string;
  readonly #signal: AbortSignal;

  constructor(cluster: Cluster, pods: string, signal: AbortSignal) {
    this.#cluster = cluster;
    this.#pods = pods;
    this.#signal = signal;
  }

  async downtimes(sizeMiB: number, n: number): Promise<Summary> {
    let sandbox = await this.#create("moved", sizeMiB);
    const values: number[] = [];
    for (let turn = 0; turn < n; turn++) {
      this.#signal.throwIfAborted();
      process.stderr.write(`\revictions with ${sizeMiB} MiB: ${turn + 1}/${n} `);
      await firstAnswer(addressOf(sandbox));
      const next = this.#continued(sandbox);
      const last = lastAnswer(addressOf(sandbox), next);
      await this.#evict("moved");
      sandbox = await next;
      const count = Number(await firstAnswer(addressOf(sandbox)));
      const before = await last;
      values.push(performance.now() - before.at);
      if (count <= before.count) throw new Error(`The sandbox counts ${count} after ${before.count}.`);
    }
    await this.#remove("moved");
    return summary(values)!;
  }

  async drain(sandboxes: number): Promise<Moves["drain"]> {
    const names = Array.from({ length: sandboxes }, (_, number) => `drained-${number}`);
    process.stderr.write(`\r\x1b[Kdrain of ${sandboxes} sandboxes `);
    const before: Sandbox[] = [];
    for (const name of names) before.push(await this.#create(name, 0));
    const since = performance.now();
    const seconds = (): number => (performance.now() - since) / 1000;
    const gone = before.map(async ({ metadata: { name }, status }) => {
      await this.#cluster.pod(`${namespace}/${name}`, ({ metadata }) => metadata.uid !== status?.podInfo?.podUID);
    });
    const next = before.map(async (sandbox) => firstAnswer(addressOf(await this.#continued(sandbox))));
    await Promise.all(names.map((name) => this.#evict(name)));
    // The next Pod of a sandbox has the name of the one before, so it exists when that has gone.
    const podsGoneSeconds = await Promise.all(gone).then(seconds);
    const answeringSeconds = await Promise.all(next).then(seconds);
    await Promise.all(names.map((name) => this.#remove(name)));
    return { sandboxes, podsGoneSeconds, answeringSeconds };
  }

  async scheduled(minutes: number): Promise<Pick<Moves, "scheduled" | "controllersCpuSeconds">> {
    const metadata = { annotations: { [annotations.checkpointEvery]: "1m" } };
    const commands = { idle: workloadCommand(0), busy: busyCommand };
    const compared = async (program: keyof typeof commands) => {
      const command = commands[program];
      const sandbox = await this.#create(program, 0, { command, metadata });
      const without = await this.#create(`${program}-without`, 0, { command });
      return {
        program,
        sandbox,
        without,
        cpu: await cpuOfPod(sandbox, this.#pods),
        cpuWithout: await cpuOfPod(without, this.#pods),
      };
    };
    const all = [await compared("idle"), await compared("busy")];
    const controllers = await cpuOf(await processesWith("controller", this.#cluster.kubeconfigPath));
    const added = this.#addedBytes();
    for (let minute = 0; minute < minutes; minute++) {
      process.stderr.write(`\rautomatic checkpoints: minute ${minute + 1}/${minutes} `);
      await sleep(60_000, undefined, { signal: this.#signal });
    }
    const costs = all.map(async ({ program, sandbox, cpu, cpuWithout }): Promise<ScheduledCosts> => {
      const bytes = added.of(sandbox);
      return {
        program,
        checkpoints: bytes.length,
        addedMiB: bytes.reduce((sum, one) => sum + one, 0) / 2 ** 20,
        cpuSeconds: await cpu(),
        cpuSecondsWithout: await cpuWithout(),
      };
    });
    const measured = { scheduled: await Promise.all(costs), controllersCpuSeconds: await controllers() };
    added.close();
    const created = all.flatMap(({ sandbox, without }) => [sandbox, without]);
    await Promise.all(created.map((one) => this.#remove(one.metadata.name)));
    return measured;
  }

  /** Collects the sizes of automatic checkpoints, also of those that are deleted meanwhile. */
  #addedBytes() {
    const { store } = this.#cluster.seen.checkpoints;
    const seen = new Map<string, { owner: string | undefined; bytes: number }>();
    const close = store.subscribe(() => {
      for (const { metadata, status } of store.list()) {
        if (metadata.labels?.[labels.purpose] !== "automatic" || status?.phase !== "Succeeded") continue;
        const bytes = status.ramet?.addedBytes ?? status.ramet?.sizeBytes ?? NaN;
        seen.set(metadata.uid, { owner: metadata.ownerReferences?.[0]?.uid, bytes });
      }
    });
    const of = ({ metadata }: Sandbox): number[] =>
      [...seen.values()].filter(({ owner }) => owner === metadata.uid).map(({ bytes }) => bytes);
    return { close, of };
  }

  async #create(name: string, sizeMiB: number, { command = workloadCommand(sizeMiB), metadata = {} } = {}) {
    const container = { name: "main", image: "python", command, ports: [{ containerPort: workloadPort }] };
    await this.#cluster.create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name, namespace },
      spec: { template: { metadata, spec: { terminationGracePeriodSeconds: 1, containers: [container] } } },
    });
    const sandbox = await this.#cluster.sandbox(`${namespace}/${name}`, ({ status }) => status?.phase === "Running");
    await firstAnswer(addressOf(sandbox));
    return sandbox;
  }

  #continued({ metadata, status }: Sandbox): Promise<Sandbox> {
    return this.#cluster.sandbox(
      `${namespace}/${metadata.name}`,
      (now) => now.status?.phase === "Running" && now.status.podInfo?.podUID !== status?.podInfo?.podUID,
    );
  }

  async #evict(name: string): Promise<void> {
    const metadata = { name, namespace };
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata };
    await this.#cluster.seen.pods.resource.postSubresource(metadata, "eviction", eviction);
  }

  async #remove(name: string): Promise<void> {
    await this.#cluster.seen.sandboxes.resource.delete({ namespace, name });
    await this.#cluster.untilDeleted("sandboxes", `${namespace}/${name}`);
  }
}

/** Computes for a tenth of the time, and each second changes 1 MiB of its memory and writes 1 MiB into a file. */
const busyCommand = [
  "python3",
  "-c",
  `
import os, threading, time
exec(${JSON.stringify(workloadCommand(0)[2])}.replace("Server((", "server = Server((").replace(".serve_forever()", ""))
threading.Thread(target=server.serve_forever, daemon=True).start()
kept = [b""] * 64
for second in range(1 << 30):
    end = time.monotonic() + 0.1
    while time.monotonic() < end: pass
    kept[second % 64] = os.urandom(1 << 20)
    with open("/root/%d" % (second % 64), "wb") as file: file.write(kept[second % 64])
    time.sleep(0.9)
`,
  "0",
];

/** The CPU time of the processes of a sandbox's Pod from now on. @param pods the directory of the node's Pods */
async function cpuOfPod({ status }: Sandbox, pods: string): Promise<() => Promise<number>> {
  const root = new PodDirectory(pods, status?.podInfo?.podUID ?? "").readRecord()?.process;
  return cpuOf(root === undefined ? [] : [root, ...(await descendants(root.pid))]);
}

/** @throws Error if there are none, whose time would be 0 */
async function cpuOf(processes: readonly { pid: number }[]): Promise<() => Promise<number>> {
  if (processes.length === 0) throw new Error("there are no processes to measure");
  const pids = [...new Set(processes.map(({ pid }) => pid))];
  const before = await cpuSecondsWithEnded(pids);
  return async () => (await cpuSecondsWithEnded(pids)) - before;
}

const addressOf = ({ status }: Sandbox): string => status?.sandboxIp ?? "";

/** Asks until the sandbox runs in its next Pod. Returns the last number that it answered, and when. */
async function lastAnswer(ip: string, next: Promise<unknown>): Promise<{ count: number; at: number }> {
  let last = { count: 0, at: performance.now() };
  const over = new AbortController();
  const ended = next.finally(() => {
    over.abort();
  });
  while (!over.signal.aborted) {
    const url = `http://${ip}:${workloadPort}/`;
    const answer = await fetch(url, { signal: AbortSignal.timeout(1_000) })
      .then((response) => response.text())
      .catch(() => undefined);
    if (answer === undefined) await sleep(5);
    else last = { count: Number(answer), at: performance.now() };
  }
  await ended;
  return last;
}
