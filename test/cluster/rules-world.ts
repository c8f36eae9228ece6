import { expect } from "vitest";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { type Cluster, type ClusterOptions, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

type SandboxStatus = NonNullable<Sandbox["status"]>;
type CheckpointStatus = NonNullable<Checkpoint["status"]>;

/** A real API server and the real controllers with stand-in cells. Each test has its own namespace. */
export class RulesWorld {
  readonly node = new StandInNode();
  readonly options: ClusterOptions = { startNode: this.node.start };
  /** The namespace of the current test. */
  namespace = "";
  #cluster: Cluster | undefined;
  #namespaces = 0;

  async open(): Promise<void> {
    this.#cluster = await openCluster(this.options);
  }

  async close(): Promise<void> {
    await this.#cluster?.close();
  }

  get cluster(): Cluster {
    if (this.#cluster === undefined) throw new Error("the cluster is not open");
    return this.#cluster;
  }

  async inNewNamespace(): Promise<void> {
    this.namespace = `n${++this.#namespaces}`;
    await this.cluster.namespace(this.namespace);
  }

  /** The key of an object in the current namespace. */
  at(name: string): string {
    return `${this.namespace}/${name}`;
  }

  async create(kind: string, name: string, spec: object, annotations?: Record<string, string>): Promise<void> {
    const metadata = { name, namespace: this.namespace, ...(annotations && { annotations }) };
    await this.cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind, metadata, spec });
  }

  /** Sets an annotation of the current namespace. Resolves when an informer shows it. */
  async annotateNamespace(key: string, value: string): Promise<void> {
    const { resource, store } = this.cluster.seen.namespaces;
    await resource.mergePatch({ name: this.namespace }, { metadata: { annotations: { [key]: value } } });
    await expect.poll(() => store.get(this.namespace)?.metadata.annotations?.[key]).toBe(value);
  }

  quota(text: string): Promise<void> {
    return this.annotateNamespace(annotations.quota, text);
  }

  /** Changes the spec of a Sandbox. */
  patch(name: string, spec: object): Promise<Sandbox> {
    return this.cluster.seen.sandboxes.resource.mergePatch({ namespace: this.namespace, name }, { spec });
  }

  /** Resolves when the condition holds for the status of a Sandbox. */
  sandbox(name: string, holds: (status: SandboxStatus) => boolean): Promise<Sandbox> {
    return this.cluster.sandbox(this.at(name), ({ status }) => status !== undefined && holds(status));
  }

  /** Resolves when the condition holds for the status of a Checkpoint. */
  checkpoint(name: string, holds: (status: CheckpointStatus) => boolean): Promise<Checkpoint> {
    return this.cluster.checkpoint(this.at(name), ({ status }) => status !== undefined && holds(status));
  }

  /** Creates a Sandbox, and resolves when it is Running or Failed. */
  async running(name: string): Promise<Sandbox> {
    await this.create("Sandbox", name, { template });
    return this.sandbox(name, inPhase("Running", "Failed"));
  }

  /** Begins a capture of a sandbox as a Checkpoint. It ends when the returned gate is resolved. */
  async capturing(name: string, source: string): Promise<PromiseWithResolvers<undefined>> {
    const hold = gate();
    this.node.cells.get(this.at(source))!.behaviour.captureGate = hold.promise;
    await this.create("Checkpoint", name, { podName: source });
    await this.checkpoint(name, inPhase("Creating"));
    return hold;
  }

  /** Captures a sandbox, and resolves to the id of the checkpoint. */
  async taken(name: string, source: string): Promise<string> {
    await this.create("Checkpoint", name, { podName: source });
    const { status } = await this.checkpoint(name, inPhase("Succeeded", "Failed"));
    expect(status?.phase).toBe("Succeeded");
    return status?.checkpointId ?? "";
  }
}

/** The annotation of a clone. */
export const restoreFrom = "agents.kruise.io/restore-from";

export const template = { spec: { containers: [{ name: "main", image: "python", env: [{ name: "A", value: "1" }] }] } };

export function inPhase(...phases: string[]): (status: { phase?: string | undefined }) => boolean {
  return ({ phase }) => phases.includes(phase ?? "");
}

export function reasonOf({ conditions }: SandboxStatus, type: string): string | undefined {
  return conditions?.find((one) => one.type === type)?.reason;
}

/** Blocks an operation of a stand-in cell until it is resolved. */
export function gate(): PromiseWithResolvers<undefined> {
  return Promise.withResolvers<undefined>();
}
