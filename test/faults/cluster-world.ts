import { setTimeout as sleep } from "node:timers/promises";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { type SandboxClaim, sandboxClaimKind } from "../../src/api/kinds/sandbox-claim.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import type { ClusterDirectory } from "../../src/local/cluster-directory.ts";
import { treesBy } from "../../src/local/csi/storage/trees.ts";
import { dropLayers } from "../../src/local/node/layer-directories.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { countOrphans, type Orphans } from "../bench/orphans.ts";
import { LocalCluster, type PartName } from "../bench/local-cluster.ts";
import { cellAmong, podFamily } from "../bench/pod-family.ts";
import { firstAnswer } from "../bench/workload.ts";
import { engineCommandRuns, type EngineCommand } from "./engine-command.ts";
import { hurried } from "../cluster/local-cluster.ts";
import { killNow } from "./processes.ts";

/** Mounts a file system at the store's path before the cluster starts. */
export interface StoreMount {
  mountAt(path: string): Promise<void>;
  unmount(): void;
}

export type Victim = PartName | "cell";

/** A real local cluster whose parts can be killed. */
export class ClusterWorld {
  readonly cluster: LocalCluster;
  readonly sizeMiB: number;
  readonly #idle: Orphans;

  private constructor(cluster: LocalCluster, sizeMiB: number, idle: Orphans) {
    this.cluster = cluster;
    this.sizeMiB = sizeMiB;
    this.#idle = idle;
  }

  /**
   * Starts a cluster; stops it again if a step fails.
   * @param sizeMiB memory that each sandbox touches: more memory makes its checkpoints and clones slower
   */
  static async open(sizeMiB: number, options: { storeOn?: StoreMount } = {}): Promise<ClusterWorld> {
    const { storeOn } = options;
    const prepare =
      storeOn === undefined ? undefined : (directory: ClusterDirectory) => storeOn.mountAt(directory.store);
    const cluster = await LocalCluster.up("faults", new AbortController().signal, { prepare, setting: hurried });
    try {
      // The first sandbox and checkpoint leave spare cells and the namespace's store, which an idle cluster keeps.
      const first = await cluster.createSandbox({ name: "first" });
      await cluster.remove(cluster.cluster.checkpoints, await cluster.createCheckpoint("first", "first"));
      await cluster.remove(cluster.cluster.sandboxes, first);
      await sleep(2_000);
      return new ClusterWorld(cluster, sizeMiB, await countOrphans(cluster.dataDirectory));
    } catch (error) {
      storeOn?.unmount();
      await cluster.down().catch((failure: unknown) => {
        throw new AggregateError([error, failure], "cannot stop the cluster after a failed start");
      });
      throw error;
    }
  }

  close(): Promise<void> {
    return this.cluster.down();
  }

  /** Starts a sandbox and sends it one request: its count is 1 afterwards. */
  async source(name: string): Promise<Sandbox> {
    const sandbox = await this.cluster.createSandbox({ name, sizeMiB: this.sizeMiB });
    await this.count(sandbox);
    return sandbox;
  }

  /** Sends a request to the workload, which responds with the number of its requests. */
  async count({ metadata, status }: Sandbox): Promise<number> {
    if (status?.sandboxIp === undefined) throw new Error(`${metadata.name} has no address`);
    return Number(await firstAnswer(status.sandboxIp));
  }

  requestClone(name: string, checkpoint: Checkpoint): Promise<Sandbox> {
    const { checkpointId } = checkpoint.status ?? {};
    return this.cluster.requestSandbox({ name, sizeMiB: this.sizeMiB, checkpointId });
  }

  /** Clones the checkpoint, sends one request, deletes the clone and returns the count it responded with. */
  async countInClone(name: string, checkpoint: Checkpoint): Promise<number> {
    const clone = await this.cluster.untilReady(await this.requestClone(name, checkpoint));
    const count = await this.count(clone);
    await this.cluster.remove(this.cluster.cluster.sandboxes, clone);
    return count;
  }

  /** Resolves when gVisor's command runs on this cluster's store. A container's id does not identify its sandbox. */
  async engineRuns(command: EngineCommand): Promise<void> {
    await engineCommandRuns(command, this.cluster.directory.store);
  }

  /** Sends SIGKILL to a part, or to the cell of a sandbox. */
  async kill(victim: Victim, sandboxName: string): Promise<void> {
    const family = victim === "cell" ? await podFamily(this.cluster, sandboxName) : [];
    const pid = victim === "cell" ? cellAmong(family)?.pid : this.cluster.part(victim);
    if (pid === undefined) throw new Error(`there is no ${victim} to kill`);
    killNow(pid);
  }

  /** Suspends a part: its connections stay open, but it does not respond. */
  silence(part: PartName): { end: () => void } {
    const pid = this.cluster.part(part);
    if (pid === undefined) throw new Error(`there is no ${part} to stop`);
    process.kill(pid, "SIGSTOP");
    return {
      end: () => {
        process.kill(pid, "SIGCONT");
      },
    };
  }

  /** Waits until every part runs again and the API server responds. */
  async untilHealthy(): Promise<void> {
    for (const deadline = Date.now() + 60_000; Date.now() < deadline;) {
      const pids = (["etcd", "api-server", "node", "controller"] as const).map((part) => this.cluster.part(part));
      const areAlive = pids.every((pid) => pid !== undefined && isAlive(pid));
      if (areAlive && (await this.cluster.cluster.client.ready())) return;
      await sleep(50);
    }
    throw new Error("the cluster did not recover within 60 s");
  }

  get claims(): ResourceClient<SandboxClaim> {
    return this.cluster.cluster.client.of(sandboxClaimKind);
  }

  /** Deletes all objects, owners before the objects that they create. */
  async removeAll(): Promise<void> {
    const { cluster, claims } = this;
    const { sandboxes, checkpoints, sets, snapshots } = cluster.cluster;
    for (const claim of (await claims.list()).items) await cluster.remove(claims, claim);
    for (const set of (await sets.list()).items) await cluster.remove(sets, set);
    for (const snapshot of (await snapshots.list()).items) await cluster.remove(snapshots, snapshot);
    for (const checkpoint of (await checkpoints.list()).items) await cluster.remove(checkpoints, checkpoint);
    for (const sandbox of (await sandboxes.list()).items) await cluster.remove(sandboxes, sandbox);
  }

  /**
   * Removes what a killed cell left in the store, and unpacked layers that nothing needs. The controller and the node do so later;
   * this does not wait. Call it only after `removeAll`, because it removes every checkpoint.
   */
  async sweepStore(): Promise<void> {
    const store = directoryStore({ root: this.cluster.directory.store });
    await store.sweep({ livenessOf: () => Promise.resolve("absent"), olderThanMilliseconds: 0 });
    const { kubeconfig, layers } = this.cluster.directory;
    const later: Clock = { ...systemClock, now: () => new Date(Date.now() + 2 * 3_600_000) };
    const client = new KubeClient(await connectionFromKubeconfig({ path: kubeconfig }), { clock: later });
    const { "ramet-link": link } = await acquireTools({ names: ["ramet-link"] });
    const tools = { trees: treesBy(link, AbortSignal.timeout(60_000)), link, log: silentLog };
    await dropLayers(layers, tools, client).finally(() => client.close());
  }

  /** Returns the counts that are higher than those of the idle cluster at the start. Ignores open files, whose number varies. */
  async orphans(): Promise<Partial<Orphans>> {
    const { openFiles: _, ...now } = await countOrphans(this.cluster.dataDirectory);
    const entries = Object.entries(now) as [keyof typeof now, number][];
    return Object.fromEntries(entries.filter(([what, count]) => count > this.#idle[what]));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
