import { setTimeout as sleep } from "node:timers/promises";
import { labels } from "../../src/api/names/labels.ts";
import { isRollbackPending } from "../../src/api/names/rollback-request.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { openClaimer, type Claimer } from "../cluster/claimer.ts";
import { namespace, type LocalCluster } from "./local-cluster.ts";
import { firstAnswer, workloadCommand, workloadPort } from "./workload.ts";

/** A set of real sandboxes of the workload, and a client that claims them as a gateway does. */
export class WarmSet {
  readonly #cluster: LocalCluster;
  readonly #claimer: Claimer;
  readonly #name: string;

  private constructor(cluster: LocalCluster, claimer: Claimer, name: string) {
    this.#cluster = cluster;
    this.#claimer = claimer;
    this.#name = name;
  }

  static async open(cluster: LocalCluster, name: string, sizeMiB: number): Promise<WarmSet> {
    const ports = [{ containerPort: workloadPort }];
    const main = { name: "main", image: "python", command: workloadCommand(sizeMiB), ports };
    await cluster.cluster.client.resource(refOf(sandboxSetKind)).create({
      apiVersion: sandboxSetKind.apiVersion,
      kind: "SandboxSet",
      metadata: { name, namespace },
      spec: { replicas: stocked, template: { spec: { containers: [main] } } },
    });
    const client = new KubeClient(await connectionFromKubeconfig({ path: cluster.directory.kubeconfig }));
    return new WarmSet(cluster, await openClaimer(client), name);
  }

  /** Waits until it is full, all of its sandboxes respond, and its cells are idle. */
  async full(): Promise<void> {
    await this.#claimer.stocked(namespace, stocked);
    for (;;) {
      const { items } = await this.#cluster.cluster.sandboxes.list({
        namespace,
        labelSelector: `${labels.sandboxPool}=${this.#name},${labels.sandboxClaimed}=false`,
      });
      const ready = items.filter(({ status }) => status?.phase === "Running");
      if (ready.length < stocked) await sleep(20);
      else {
        await Promise.all(ready.map(({ status }) => firstAnswer(status?.sandboxIp ?? "")));
        break;
      }
    }
    await sleep(restMilliseconds);
  }

  /** Claims a sandbox, restores a checkpoint in it, and resolves when that is observed. */
  async clone(checkpointId: string, onClaimed: () => void): Promise<Sandbox> {
    const { sandbox } = await this.#claimer.claim({ namespace, set: this.#name, restoreFrom: checkpointId });
    onClaimed();
    const { store } = this.#claimer.sandboxes;
    return new Promise((resolve, reject) => {
      const look = (seen: Sandbox | undefined): void => {
        if (seen?.metadata.uid !== sandbox.metadata.uid || isRollbackPending(seen)) return;
        if (seen.metadata.annotations?.["ramet.dev/rollback-to"] !== checkpointId) return;
        stop();
        if (seen.status?.ramet?.restoredFrom === checkpointId) resolve(seen);
        else reject(new Error(`${seen.metadata.name}: ${JSON.stringify(seen.status?.conditions)}`));
      };
      const stop = store.subscribe(({ object }) => {
        look(object);
      });
      look(store.byUid(sandbox.metadata.uid));
    });
  }

  async close(): Promise<void> {
    const sets = this.#cluster.cluster.client.resource(refOf(sandboxSetKind));
    await this.#cluster.remove(sets, await sets.get({ namespace, name: this.#name }));
    await this.#claimer.close();
  }
}

const stocked = 2;
/** After a sandbox is ready, its cell creates a waiting container and the node starts a spare cell. */
const restMilliseconds = 1_500;
