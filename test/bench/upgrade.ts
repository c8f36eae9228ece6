import type { NamedSnapshot } from "../../src/api/kinds/named-snapshot.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { controllerOf } from "../../src/kube/object.ts";
import { type Cluster, type ClusterOptions, openCluster } from "../cluster/controllers-cluster.ts";
import { realNode } from "../cluster/controllers-real-node.ts";
import { otherGuest } from "../setup/other-engine.ts";
import { type ClaimRun, ClaimsOneByOne } from "./claims-one-by-one.ts";
import { workloadCommand, workloadPort } from "./workload.ts";

/** An upgrade of a cluster to a cell image with another engine. */
export interface Upgrade {
  snapshots: number;
  /** The replicas of the set from which sandboxes are claimed. */
  replicas: number;
  /** Before the upgrade: from the first write until all named snapshots were built. As many at a time as the quota allows. */
  builtSeconds: number;
  /** From the end of the earlier controllers. */
  seconds: {
    /** Until the new controllers work. */
    controllers: number;
    /** Until the first, half and all of the named snapshots were captured again. */
    first: number;
    half: number;
    last: number;
    /** Until the set had only sandboxes of the new engine. */
    set: number;
  };
  claims: { before: ClaimRun; during: ClaimRun };
}

/**
 * Upgrades real sandboxes of a real node to another guest: named snapshots, each with a step of its own, and a set, from which
 * a user claims sandboxes all the time. The API server's etcd does not sync to disk. The controllers are killed and started
 * again with the new cell image, and capture as many named snapshots at a time as by default.
 */
export async function measureUpgrade(snapshots: number, signal: AbortSignal): Promise<Upgrade> {
  const startNode = realNode({ cells: { "cell:2": { guest: await otherGuest() } } });
  const options: ClusterOptions = { startNode, cellImage: "cell:1", ownProcess: true };
  const cluster = await openCluster(options);
  try {
    const bench = new UpgradeBench(cluster, signal);
    const builtSeconds = await bench.build(snapshots);
    const claims = new ClaimsOneByOne(cluster, { namespace, set: set.metadata.name });
    const before = await claims.run((done) => done === claimsBefore, signal);

    options.cellImage = "cell:2";
    let isOver = false;
    const claiming = claims.run(() => isOver, signal);
    const since = performance.now();
    try {
      await cluster.restartControllers();
      const controllers = secondsSince(since);
      const [captured, rolled] = await Promise.all([bench.untilCurrent(2, since), bench.untilRolled("cell:2", since)]);
      const [first = 0, half = 0, last = 0] = [0, Math.ceil(snapshots / 2) - 1, snapshots - 1].map(
        (at) => captured[at],
      );
      isOver = true;
      const seconds = { controllers, first, half, last, set: rolled };
      return { snapshots, replicas, builtSeconds, seconds, claims: { before, during: await claiming } };
    } finally {
      isOver = true;
      await claiming.catch(() => undefined);
    }
  } finally {
    process.stderr.write("\r\x1b[K");
    await cluster.close();
  }
}

const namespace = "upgrade";
const replicas = 3;
const claimsBefore = 20;
const apiVersion = "agents.kruise.io/v1alpha1";

const main = { name: "main", image: "python", command: workloadCommand(0), ports: [{ containerPort: workloadPort }] };
const podTemplate = { spec: { terminationGracePeriodSeconds: 1, containers: [main] } };
const set = {
  apiVersion,
  kind: "SandboxSet",
  metadata: { namespace, name: "set" },
  spec: { replicas, template: podTemplate },
};
const template = {
  apiVersion,
  kind: "SandboxTemplate",
  metadata: { namespace, name: "base" },
  spec: { template: podTemplate },
};
/** Its step is its own, so that no build starts from a step of another. */
const snapshot = (name: string) => ({
  apiVersion: "ramet.dev/v1alpha1",
  kind: "NamedSnapshot",
  metadata: { namespace, name },
  spec: { from: { template: { name: template.metadata.name } }, recipe: [{ run: `echo ${name} > /name` }] },
});

class UpgradeBench {
  readonly #cluster: Cluster;
  readonly #signal: AbortSignal;

  constructor(cluster: Cluster, signal: AbortSignal) {
    this.#cluster = cluster;
    this.#signal = signal;
  }

  /** Returns the seconds from the first named snapshot until all are built. Also fills the set. */
  async build(snapshots: number): Promise<number> {
    const cluster = this.#cluster;
    await cluster.namespace(namespace);
    await cluster.create(template);
    const since = performance.now();
    for (let number = 0; number < snapshots; number++) await cluster.create(snapshot(`snapshot-${number}`));
    const built = await this.untilCurrent(1, since, snapshots);
    await cluster.create(set);
    await this.untilRolled("cell:1", performance.now());
    return built.at(-1) ?? 0;
  }

  /** Returns after how many seconds each named snapshot had this version as the current one, in order. */
  untilCurrent(version: number, since: number, count = this.#cluster.seen.snapshots.store.list().length) {
    const { store } = this.#cluster.seen.snapshots;
    const current = new Map<string, number>();
    return this.#until(store, () => {
      for (const { metadata, status } of store.list()) {
        if (current.has(metadata.name) || status?.version !== version || !hasCurrentEngine(status)) continue;
        current.set(metadata.name, secondsSince(since));
        process.stderr.write(`\rupgrade: version ${version} of ${current.size}/${count} `);
      }
      return current.size === count ? [...current.values()] : undefined;
    });
  }

  /** Returns after how many seconds the set was full of sandboxes with this cell image. */
  untilRolled(cellImage: string, since: number): Promise<number> {
    const { sandboxes, pods } = this.#cluster.seen;
    return this.#until(sandboxes.store, () => {
      const owned = sandboxes.store.list().filter((one) => controllerOf(one)?.name === set.metadata.name);
      const areNew = owned.every(({ metadata: { name } }) => {
        return pods.store.get(`${namespace}/${name}`)?.spec.containers[0]?.image === cellImage;
      });
      return areNew && owned.length >= replicas ? secondsSince(since) : undefined;
    });
  }

  #until<T>(store: { subscribe: (look: () => void) => () => void }, result: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = result();
        if (found === undefined && !this.#signal.aborted) return;
        unsubscribe();
        this.#signal.removeEventListener("abort", look);
        if (found === undefined) reject(new Error("interrupted", { cause: this.#signal.reason }));
        else resolve(found);
      };
      const unsubscribe = store.subscribe(look);
      this.#signal.addEventListener("abort", look);
      look();
    });
  }
}

/** Without the condition, no upgrade was needed. */
function hasCurrentEngine({ conditions }: NonNullable<NamedSnapshot["status"]>): boolean {
  return findCondition(conditions, "EngineCurrent")?.status !== "False";
}

function secondsSince(since: number): number {
  return (performance.now() - since) / 1000;
}
