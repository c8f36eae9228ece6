import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { RametError } from "../../../src/base/errors.ts";
import type { Checkpoint } from "../../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { Cluster } from "../../../src/cli/cluster/cluster.ts";
import { isConditionTrue } from "../../../src/kube/conditions.ts";
import type { KubeManifest, KubeObject } from "../../../src/kube/object.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { waitUntil } from "../../../src/kube/wait-until.ts";
import { openPki } from "../../../src/local/control-plane/pki.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { namespace, type PartName } from "../../bench/local-cluster.ts";
import { countOrphans, type Orphans } from "../../bench/orphans.ts";
import { workloadPort } from "../../bench/workload.ts";
import { TestCluster } from "../../cluster/local-cluster.ts";
import { builtPrograms } from "../../setup/built-package.ts";
import { ApiProxy } from "./api-proxy.ts";
import { ledgerCommand } from "./ledger.ts";
import { StoreDisk } from "./store-disk.ts";

/** How long an operation may take with the faults of its batch. Longer is a broken promise: it is stuck. */
const patienceMilliseconds = 150_000;

/** How long anything may remain after the last fault. */
export const settlingMilliseconds = 45_000;

/** A real local cluster, and a user's requests to it that are repeated until the API server has answered. */
export class LongWorld {
  readonly local: TestCluster;
  readonly cluster: Cluster;
  /** Between the controllers and the API server. */
  readonly api: ApiProxy;
  /** The store's disk. Undefined for an ordinary user. */
  readonly disk: StoreDisk | undefined;
  #idle: Orphans | undefined;

  private constructor({ local, cluster, api, disk }: Pick<LongWorld, "local" | "cluster" | "api" | "disk">) {
    this.local = local;
    this.cluster = cluster;
    this.api = api;
    this.disk = disk;
  }

  static async open(): Promise<LongWorld> {
    const local = await TestCluster.create();
    const disk = await StoreDisk.mountAt(local.directory.store);
    try {
      const [node, ...program] = builtPrograms.part;
      await local.up([node, "--import", join(import.meta.dirname, "part-preload.ts"), ...program]);
      const cluster = new Cluster(await local.client(), namespace);
      const world = new LongWorld({ local, cluster, api: await proxyOf(local), disk });
      // From now on, the controllers use the proxy.
      process.kill(world.pidOf("controller"), "SIGTERM");
      await sleep(500);
      await world.untilHealthy();
      await world.create(cluster.templates, {
        apiVersion: "agents.kruise.io/v1alpha1",
        kind: "SandboxTemplate",
        metadata: { name: "base", namespace },
        spec: { template: { spec: podSpec(["sleep", "infinity"]) } },
      });
      return world;
    } catch (error) {
      await disk?.unmount();
      await local.remove();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.local.down();
    await this.api.close();
    await this.disk?.unmount();
    await this.local.remove();
  }

  get storePath(): string {
    return this.local.directory.store;
  }

  /** @throws Error if the part does not run at the moment */
  pidOf(part: PartName): number {
    return this.local.pid(part);
  }

  /** @param checkpointId of the checkpoint to clone. @default a new sandbox */
  requestSandbox(name: string, checkpointId?: string): Promise<Sandbox> {
    const annotations = checkpointId === undefined ? {} : { "ramet.dev/restore-from": checkpointId };
    return this.create(this.cluster.sandboxes, {
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name, namespace, annotations },
      spec: { template: { spec: podSpec(ledgerCommand) } },
    });
  }

  requestCheckpoint(name: string, sandboxName: string): Promise<Checkpoint> {
    return this.create(this.cluster.checkpoints, {
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Checkpoint",
      metadata: { name, namespace },
      spec: { sandboxName },
    });
  }

  /** Waits until it is Ready or Failed. */
  untilReady(sandbox: Sandbox): Promise<Sandbox> {
    return this.until(this.cluster.sandboxes, sandbox, ({ status }) => {
      return status?.phase === "Failed" || isReady({ status });
    });
  }

  untilFinished(checkpoint: Checkpoint): Promise<Checkpoint> {
    return this.until(this.cluster.checkpoints, checkpoint, ({ status }) =>
      ["Succeeded", "Failed"].includes(status?.phase ?? ""),
    );
  }

  async until<T extends KubeObject>(
    resource: ResourceClient<T>,
    from: T,
    holds: (object: T) => boolean,
    timeoutMilliseconds = patienceMilliseconds,
  ): Promise<T> {
    const until = (object: T | undefined): boolean => object !== undefined && holds(object);
    for (const deadline = Date.now() + timeoutMilliseconds; ;) {
      try {
        const left = Math.max(1, deadline - Date.now());
        const found = await waitUntil({ resource, from, until, timeoutMilliseconds: left });
        if (found !== undefined) return found;
      } catch (error) {
        if (Date.now() > deadline || RametError.from(error).code === "NotFound") {
          throw new Error(`${from.metadata.name} is stuck: ${String(error)}: ${await this.#stateOf(resource, from)}`, {
            cause: error,
          });
        }
        await sleep(100);
      }
    }
  }

  /** Creates the object, or finds that an earlier attempt without an answer has created it. */
  create<T extends KubeObject>(resource: ResourceClient<T>, manifest: KubeManifest): Promise<T> {
    const name = manifest.metadata.name ?? "";
    return this.repeat(async () => {
      try {
        return await resource.create(manifest);
      } catch (error) {
        if (RametError.from(error).code !== "AlreadyExists") throw error;
        return resource.get({ namespace, name });
      }
    });
  }

  /** Deletes the object and waits until it is gone. */
  async remove<T extends KubeObject>(resource: ResourceClient<T>, { metadata }: T): Promise<void> {
    const { name, uid } = metadata;
    await this.repeat(() => resource.delete({ namespace, name }, { uid }));
    for (const deadline = Date.now() + patienceMilliseconds; ;) {
      const found = await this.repeat(() => resource.find({ namespace, name }));
      if (found === undefined || found.metadata.uid !== uid) return;
      if (Date.now() > deadline) throw new Error(`the deletion of ${name} is stuck: ${JSON.stringify(found.metadata)}`);
      await sleep(50);
    }
  }

  /** Repeats a request until the API server answers. */
  async repeat<T>(attempt: () => Promise<T>): Promise<T> {
    for (const deadline = Date.now() + patienceMilliseconds; ;) {
      try {
        return await attempt();
      } catch (error) {
        if (!RametError.from(error).retryable || Date.now() > deadline) throw error;
        await sleep(100);
      }
    }
  }

  /** Waits until every part runs again and the API server responds. */
  async untilHealthy(): Promise<void> {
    for (const deadline = Date.now() + 90_000; Date.now() < deadline;) {
      if (this.#partsRun() && (await this.cluster.client.ready())) return;
      await sleep(50);
    }
    throw new Error("the cluster did not recover within 90 s");
  }

  #partsRun(): boolean {
    try {
      for (const part of ["etcd", "api-server", "node", "controller", "gateway"]) process.kill(this.local.pid(part), 0);
      return true;
    } catch {
      return false;
    }
  }

  /** The ids of the checkpoints in the store. */
  async stored(): Promise<string[]> {
    return readdir(join(this.storePath, namespace, "checkpoints")).catch(() => []);
  }

  /** Deletes all objects of users but those with these UIDs. */
  async removeAll(kept: readonly string[] = []): Promise<void> {
    const { snapshots, checkpoints, sandboxes } = this.cluster;
    await this.#removeEach(snapshots, kept);
    await this.#removeEach(sandboxes, kept);
    await this.#removeEach(checkpoints, kept);
  }

  async #removeEach<T extends KubeObject>(resource: ResourceClient<T>, kept: readonly string[]): Promise<void> {
    const { items } = await this.repeat(() => resource.list({ namespace }));
    const doomed = items.filter(({ metadata }) => !kept.includes(metadata.uid));
    await Promise.all(doomed.map((item) => this.remove(resource, item)));
  }

  async podNames(): Promise<string[]> {
    const pods = this.cluster.client.resource(coreResources.pods);
    return (await this.repeat(() => pods.list({ namespace }))).items.map(({ metadata }) => metadata.name);
  }

  /** Removes what interrupted captures left in the store, like a controller after the grants have expired. */
  async sweepStore(): Promise<void> {
    const store = directoryStore({ root: this.storePath });
    await store.sweep({ livenessOf: () => Promise.resolve("absent"), olderThanMilliseconds: 0 });
  }

  /** Records the resources that this empty cluster uses; an idle one always uses as much. */
  async settle(): Promise<void> {
    this.#idle = await this.#count();
  }

  /** The counts that are higher than those of the idle cluster. */
  async orphans(): Promise<Partial<Orphans>> {
    const now = await this.#count();
    const entries = Object.entries(now) as [keyof Orphans, number][];
    return Object.fromEntries(
      entries.filter(([what, count]) => what !== "openFiles" && count > (this.#idle?.[what] ?? 0)),
    );
  }

  /** Below the data directory: the environment of most processes has only that. */
  #count(): Promise<Orphans> {
    return countOrphans(dirname(dirname(this.local.directory.path)));
  }

  async #stateOf<T extends KubeObject>(resource: ResourceClient<T>, { metadata }: T): Promise<string> {
    const found = await resource.find(metadata).catch(String);
    return JSON.stringify(typeof found === "object" && "status" in found ? found.status : found);
  }
}

/** Opens the proxy, and tells the controllers' next process to use it. */
async function proxyOf({ directory }: TestCluster): Promise<ApiProxy> {
  const pki = await openPki(join(directory.path, "pki"), () => new Date());
  const kubeconfig = await readFile(directory.kubeconfig, "utf8");
  const target = /server: "?(https:[^\s"]+)/.exec(kubeconfig)?.[1] ?? "";
  const proxy = new ApiProxy({
    target,
    ca: pki.ca,
    serving: await pki.issue({ commonName: "proxy", use: "server", hosts: ["127.0.0.1"] }),
    client: await pki.issue({ commonName: "ramet-admin", organizations: ["system:masters"], use: "client" }),
  });
  const replaced = kubeconfig.replaceAll(target, await proxy.listen());
  await writeFile(join(directory.path, "faults-kubeconfig"), replaced, { mode: 0o600 });
  return proxy;
}

export function isReady({ status }: Pick<Sandbox, "status">): boolean {
  return status?.phase === "Running" && isConditionTrue(status.conditions, "Ready");
}

function podSpec(command: readonly string[]): object {
  const main = { name: "main", image: "python", command, ports: [{ containerPort: workloadPort }] };
  return { terminationGracePeriodSeconds: 1, containers: [main] };
}
