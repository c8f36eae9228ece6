import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/base/clock.ts";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Contents } from "../../src/api/schema/metadata.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { Cluster } from "../../src/cli/cluster/cluster.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { waitUntil } from "../../src/kube/wait-until.ts";
import { clusterDirectory, type ClusterDirectory } from "../../src/local/cluster-directory.ts";
import { readStatus } from "../../src/local/cluster-status.ts";
import type { ClusterSetting } from "../../src/local/cluster-setting.ts";
import { prepareCluster } from "../../src/local/prepare-cluster.ts";
import { startCluster } from "../../src/local/up.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { workloadCommand, workloadPort } from "./workload.ts";

const ramet = fileURLToPath(new URL("../../bin/ramet.mjs", import.meta.url));
const apiVersion = "agents.kruise.io/v1alpha1";
export const namespace = "default";
export const partNames = ["etcd", "api-server", "node", "controller", "gateway"] as const;
export type PartName = (typeof partNames)[number];

export interface SandboxRequest {
  name: string;
  sizeMiB?: number;
  /** The id of the checkpoint to clone. */
  checkpointId?: string | undefined;
  image?: string;
  command?: string[];
}

export interface LocalClusterOptions {
  /** Called with the empty directory. */
  prepare?: ((directory: ClusterDirectory) => Promise<void>) | undefined;
  /** Other settings than those that `ramet local up` would choose. @default `ramet local up` starts the cluster */
  setting?: Partial<ClusterSetting>;
}

/** A local cluster started by `ramet local up` for this run, and a user's requests to it. */
export class LocalCluster {
  readonly directory: ClusterDirectory;
  readonly cluster: Cluster;
  readonly #dataFolder: string;
  readonly #signal: AbortSignal;

  private constructor(dataDirectory: string, directory: ClusterDirectory, cluster: Cluster, signal: AbortSignal) {
    this.#dataFolder = dataDirectory;
    this.directory = directory;
    this.cluster = cluster;
    this.#signal = signal;
  }

  static async up(
    name: string,
    signal: AbortSignal,
    { prepare, setting }: LocalClusterOptions = {},
  ): Promise<LocalCluster> {
    const dataDirectory = await mkdtemp(join(tmpdir(), `ramet-${name}-`));
    const directory = clusterDirectory(name, { XDG_DATA_HOME: dataDirectory });
    try {
      await prepare?.(directory);
      if (setting === undefined) await runRamet(dataDirectory, ["local", "up", "--name", name]);
      else await startWith(setting, directory, dataDirectory, signal);
      const client = new KubeClient(await connectionFromKubeconfig({ path: directory.kubeconfig }));
      return new LocalCluster(dataDirectory, directory, new Cluster(client, namespace), signal);
    } catch (error) {
      await runRamet(dataDirectory, ["local", "down", "--name", name, "--purge"]).catch(() => undefined);
      await rm(dataDirectory, { recursive: true, force: true });
      throw error;
    }
  }

  /** Stops everything. Orphans can then be found by `dataDirectory`. */
  async down(): Promise<void> {
    await this.cluster.close();
    await runRamet(this.#dataFolder, ["local", "down", "--name", this.directory.name, "--purge"]);
    await rm(this.#dataFolder, { recursive: true, force: true });
  }

  get dataDirectory(): string {
    return this.#dataFolder;
  }

  /** The current process of a part. Undefined while it restarts. */
  part(name: PartName | "client-api"): number | undefined {
    return readStatus(this.directory.status)?.parts.find((part) => part.name === name)?.process?.pid;
  }

  /** The settings of E2B's SDK for this cluster. */
  async clientOptions(): Promise<{ apiKey: string; apiUrl: string; sandboxUrl: string }> {
    const args = ["local", "env", "--name", this.directory.name, "--mode", "addresses", "--output", "json"];
    const printed = JSON.parse(await runRamet(this.#dataFolder, args)) as Record<string, string>;
    const { E2B_API_KEY: apiKey = "", E2B_API_URL: apiUrl = "", E2B_SANDBOX_URL: sandboxUrl = "" } = printed;
    return { apiKey, apiUrl, sandboxUrl };
  }

  /** Creates the object without waiting. */
  requestSandbox({ name, sizeMiB = 0, checkpointId, image = "python", command }: SandboxRequest): Promise<Sandbox> {
    const annotations = checkpointId === undefined ? {} : { "ramet.dev/restore-from": checkpointId };
    const main = {
      name: "main",
      image,
      command: command ?? workloadCommand(sizeMiB),
      ports: [{ containerPort: workloadPort }],
    };
    return this.cluster.sandboxes.create({
      apiVersion,
      kind: "Sandbox",
      metadata: { name, namespace, annotations },
      spec: { template: { spec: { containers: [main] } } },
    });
  }

  /** @throws Error with the status when it failed */
  async untilReady(sandbox: Sandbox): Promise<Sandbox> {
    return this.until(this.cluster.sandboxes, sandbox, (seen) => {
      if (seen?.status?.phase === "Failed") throw new Error(`${sandbox.metadata.name}: ${seen.status.message ?? ""}`);
      return isConditionTrue(seen?.status?.conditions, "Ready");
    });
  }

  async createSandbox(request: SandboxRequest): Promise<Sandbox> {
    return this.untilReady(await this.requestSandbox(request));
  }

  requestCheckpoint(name: string, sandboxName: string, spec: Record<string, unknown> = {}): Promise<Checkpoint> {
    return this.cluster.checkpoints.create({
      apiVersion,
      kind: "Checkpoint",
      metadata: { name, namespace },
      spec: { sandboxName, ...spec },
    });
  }

  /** Waits until it has succeeded or failed. */
  untilFinished(checkpoint: Checkpoint): Promise<Checkpoint> {
    return this.until(this.cluster.checkpoints, checkpoint, (seen) =>
      ["Succeeded", "Failed"].includes(seen?.status?.phase ?? ""),
    );
  }

  async createCheckpoint(name: string, sandboxName: string, contents?: Contents): Promise<Checkpoint> {
    const requested = await this.requestCheckpoint(name, sandboxName, contents && { persistentContents: contents });
    const done = await this.untilFinished(requested);
    if (done.status?.phase !== "Succeeded") throw new Error(`${name}: ${done.status?.message ?? "failed"}`);
    return done;
  }

  /** Deletes it and waits until it is deleted. */
  async remove<T extends KubeObject>(resource: ResourceClient<T>, object: T): Promise<void> {
    const { name, uid } = object.metadata;
    await resource.delete({ namespace, name }, { uid });
    const from = await resource.find({ namespace, name });
    if (from === undefined) return;
    const isDeleted = (seen: T | undefined): boolean => seen === undefined || seen.metadata.uid !== uid;
    await waitUntil({ resource, from, until: isDeleted, timeoutMilliseconds, signal: this.#signal });
  }

  async until<T extends KubeObject>(
    resource: ResourceClient<T>,
    from: T,
    until: (object: T | undefined) => boolean,
  ): Promise<T> {
    const found = await waitUntil({ resource, from, until, timeoutMilliseconds, signal: this.#signal });
    if (found === undefined) throw new Error(`${from.metadata.name} was deleted`);
    return found;
  }
}

const timeoutMilliseconds = 120_000;

async function startWith(
  changes: Partial<ClusterSetting>,
  directory: ClusterDirectory,
  dataDirectory: string,
  signal: AbortSignal,
): Promise<void> {
  const clock = systemClock;
  const prepared = await prepareCluster({
    name: directory.name,
    dataDirectory: dirname(directory.path),
    clock,
    signal,
    progress: () => undefined,
  });
  const [program, cell] = [[...builtPrograms.part], [...builtPrograms.cell]];
  const environment = { ...process.env, XDG_DATA_HOME: dataDirectory };
  await startCluster({ directory, setting: { ...prepared, program, cell, ...changes }, clock, signal, environment });
}

/** Runs the command as a user would, in its own session: the caller handles Ctrl-C and cleans up. @returns what it prints */
async function runRamet(dataDirectory: string, args: string[]): Promise<string> {
  const child = spawn(process.execPath, [ramet, ...args], {
    env: { ...process.env, XDG_DATA_HOME: dataDirectory },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const output: string[] = [];
  const errors: string[] = [];
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => errors.push(chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  if (code === 0) return output.join("");
  throw new Error(`ramet ${args.join(" ")} ended with ${code}:\n${[...output, ...errors].join("")}`);
}
