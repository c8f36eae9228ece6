import { expect } from "vitest";
import { type Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { apiVersionOf, refOf } from "../../src/kube/resource-ref.ts";

/** How a command ended. */
export interface Outcome {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

const kinds = {
  Checkpoint: checkpointKind,
  Sandbox: sandboxKind,
  SandboxSet: sandboxSetKind,
  SandboxTemplate: sandboxTemplateKind,
  NamedSnapshot: namedSnapshotKind,
} as const;

/** A user of one namespace of a cluster with Ramet, by the Kubernetes API and by the command line. */
export abstract class RametUser {
  abstract readonly client: KubeClient;
  abstract readonly namespace: string;
  /** How long the cluster may take to start a sandbox, or to finish a checkpoint. */
  get timeoutSeconds(): number {
    return 60;
  }

  /** Runs a command in the namespace, which may fail. */
  abstract run(...args: string[]): Promise<Outcome>;

  /** Runs a command, which must succeed. */
  async ramet(...args: string[]): Promise<Outcome> {
    const outcome = await this.run(...args);
    expect(outcome.exitCode, outcome.stderr).toBe(0);
    return outcome;
  }

  get sandboxes(): ResourceClient<Sandbox> {
    return this.client.of(sandboxKind);
  }

  get checkpoints(): ResourceClient<Checkpoint> {
    return this.client.of(checkpointKind);
  }

  async create(kind: keyof typeof kinds, name: string, spec: object): Promise<void> {
    const ref = refOf(kinds[kind]);
    const metadata = { name, namespace: this.namespace };
    await this.client.resource(ref).create({ apiVersion: apiVersionOf(ref), kind, metadata, spec });
  }

  async untilRunning(name: string): Promise<Sandbox> {
    let found: Sandbox | undefined;
    await expect
      .poll(
        async () => {
          found = await this.sandboxes.find({ namespace: this.namespace, name });
          if (found?.status?.phase === "Failed") throw new Error(found.status.message);
          return findCondition(found?.status?.conditions, "Ready")?.status;
        },
        { timeout: this.timeoutSeconds * 1000 },
      )
      .toBe("True");
    return found!;
  }

  /** Creates a sandbox by the command line. */
  async clone(name: string, ...args: string[]): Promise<Sandbox> {
    await this.ramet("sandbox", "create", "--name", name, ...args, ...this.patience);
    return this.untilRunning(name);
  }

  /** Creates a Checkpoint, and waits until it has finished. */
  async taken(name: string, spec: object): Promise<Checkpoint> {
    const at = { namespace: this.namespace, name };
    await this.create("Checkpoint", name, spec);
    const isFinished = ({ status }: Checkpoint) => status?.completionTime !== undefined;
    await expect
      .poll(async () => isFinished(await this.checkpoints.get(at)), { timeout: this.timeoutSeconds * 1000 })
      .toBe(true);
    return this.checkpoints.get(at);
  }

  /** Takes a checkpoint by the command line. */
  async capture(...args: string[]): Promise<Checkpoint> {
    const id = (await this.ramet("checkpoint", "create", ...args, ...this.patience)).stdout.trim();
    const { items } = await this.checkpoints.list({ namespace: this.namespace });
    return items.find(({ status }) => status?.checkpointId === id)!;
  }

  /** The option of a command that waits. */
  get patience(): string[] {
    return ["--timeout", `${this.timeoutSeconds}s`];
  }
}
