import { expect } from "vitest";
import { labels } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { SandboxSet, SandboxSetStatus } from "../../src/api/kinds/sandbox-set.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { controllerOf, keyOf } from "../../src/kube/object.ts";
import type { Cluster } from "./controllers-cluster.ts";

const patient = { timeout: 60_000, interval: 10 };

/** One set in its own namespace, as users see it. */
export class SetWorld {
  readonly #cluster: Cluster;
  readonly namespace: string;
  readonly name: string;

  private constructor(cluster: Cluster, namespace: string, name: string) {
    this.#cluster = cluster;
    this.namespace = namespace;
    this.name = name;
  }

  static async open(cluster: Cluster, namespace: string, name = "pool"): Promise<SetWorld> {
    await cluster.namespace(namespace);
    return new SetWorld(cluster, namespace, name);
  }

  get at(): { namespace: string; name: string } {
    return { namespace: this.namespace, name: this.name };
  }

  create(spec: object, kind = "SandboxSet", name = this.name): Promise<void> {
    const apiVersion = "agents.kruise.io/v1alpha1";
    return this.#cluster.create({ apiVersion, kind, metadata: { name, namespace: this.namespace }, spec });
  }

  async patch(spec: object): Promise<void> {
    await this.#seen(await this.#cluster.seen.sets.resource.mergePatch(this.at, { spec }));
  }

  async scale(replicas: number): Promise<void> {
    const scale = this.#cluster.client.resource(this.#cluster.seen.sets.resource.ref);
    await scale.mergePatch(this.at, { spec: { replicas } }, { subresource: "scale" });
    await this.#seen(await this.#cluster.seen.sets.resource.get(this.at));
  }

  /** Resolves when the test's cache shows the new spec, so that the test does not check an earlier state. */
  async #seen({ metadata }: SandboxSet): Promise<void> {
    await expect.poll(() => this.set?.metadata.generation).toBe(metadata.generation);
  }

  get set(): SandboxSet | undefined {
    return this.#cluster.seen.sets.store.get(keyOf(this.at));
  }

  /** All sandboxes created for the set, including claimed ones. */
  get sandboxes(): Sandbox[] {
    return this.#cluster.seen.sandboxes.store
      .list()
      .filter(
        ({ metadata }) => metadata.namespace === this.namespace && metadata.labels?.[labels.sandboxPool] === this.name,
      );
  }

  get owned(): Sandbox[] {
    return this.sandboxes.filter((sandbox) => controllerOf(sandbox)?.kind === "SandboxSet");
  }

  /** The sandboxes that can be claimed now. */
  get available(): Sandbox[] {
    return this.owned.filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined &&
        metadata.annotations?.["agents.kruise.io/lock"] === undefined &&
        status?.phase === "Running" &&
        isConditionTrue(status.conditions, "Ready"),
    );
  }

  get names(): string[] {
    return this.owned.map(({ metadata }) => metadata.name).sort();
  }

  /** Resolves when the set's status contains these fields. */
  async status(fields: Partial<SandboxSetStatus>): Promise<SandboxSetStatus> {
    await expect.poll(() => this.set?.status, patient).toMatchObject(fields);
    return this.set!.status!;
  }

  /** Resolves when the status has observed the latest spec, and all replicas are available and of one revision. */
  async settled(replicas: number): Promise<SandboxSetStatus> {
    const status = { replicas, availableReplicas: replicas, updatedReplicas: replicas };
    const isObserved = () => this.set?.status?.observedGeneration === this.set?.metadata.generation;
    await expect.poll(isObserved, patient).toBe(true);
    return this.status(status);
  }

  /** Resolves to the message of the condition `Ready` when the condition has this reason. */
  async reason(reason: string): Promise<string> {
    const ready = () => this.set?.status?.conditions?.find(({ type }) => type === "Ready");
    await expect.poll(() => ready()?.reason, patient).toBe(reason);
    return ready()?.message ?? "";
  }

  /** Claims a sandbox like a SandboxClaim: one write, which fails if the sandbox has changed. Resolves to false if it failed. */
  async claim({ metadata }: Sandbox): Promise<boolean> {
    const { uid, resourceVersion } = metadata;
    const claimed = {
      uid,
      resourceVersion,
      ownerReferences: null,
      labels: { [labels.sandboxClaimed]: "true" },
      annotations: { "agents.kruise.io/lock": "a-claim", "agents.kruise.io/owner": "somebody" },
    };
    return this.#cluster.seen.sandboxes.resource.mergePatch(metadata, { metadata: claimed }).then(
      () => true,
      () => false,
    );
  }

  /** Records the lowest number of available and the highest number of all sandboxes until the returned function is called. */
  watchNumbers(): () => { fewestAvailable: number; most: number } {
    let fewestAvailable = this.available.length;
    let most = 0;
    const stop = this.#cluster.seen.sandboxes.store.subscribe(() => {
      fewestAvailable = Math.min(fewestAvailable, this.available.length);
      most = Math.max(most, this.owned.filter(isAlive).length);
    });
    return () => {
      stop();
      return { fewestAvailable, most };
    };
  }
}

function isAlive({ metadata, status }: Sandbox): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase !== "Failed" && status?.phase !== "Succeeded";
}
