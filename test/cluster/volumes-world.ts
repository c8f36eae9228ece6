import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { claimsIn, volumesIn } from "../../src/kube/volumes/volumes.ts";
import { clusterDirectory, type ClusterDirectory } from "../../src/local/cluster-directory.ts";
import { readStatus } from "../../src/local/cluster-status.ts";
import { CliHome, type Outcome } from "./cli-home.ts";

const namespace = "default";
const kinds = {
  Checkpoint: checkpointKind,
  Sandbox: sandboxKind,
  SandboxSet: sandboxSetKind,
  SandboxTemplate: sandboxTemplateKind,
  NamedSnapshot: namedSnapshotKind,
} as const;

/** A sandbox which runs a Python program, with a claim of its own for each volume, at the volume's name. */
export const sandboxWithVolumes = (code: string, names: readonly string[]) => ({
  template: {
    spec: {
      containers: [
        {
          name: "main",
          image: "python",
          command: ["python3", "-c", code],
          volumeMounts: names.map((name) => ({ name, mountPath: `/${name}` })),
        },
      ],
    },
  },
  volumeClaimTemplates: names.map((name) => ({
    metadata: { name },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  })),
});

/** A sandbox with a claim of its own at /data, which runs a Python program. */
export const sandboxWithVolume = (code: string) => sandboxWithVolumes(code, ["data"]);

/** A local cluster with real volumes, the real snapshot-controller and gVisor, and the command line as its users have it. */
export class VolumesWorld {
  #home = "";
  #cli: CliHome | undefined;
  #client: KubeClient | undefined;
  #kubeconfigPath = "";

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error("the cluster is not up");
    return this.#client;
  }

  get cli(): CliHome {
    if (this.#cli === undefined) throw new Error("the cluster is not up");
    return this.#cli;
  }

  async open(): Promise<void> {
    this.#home = await mkdtemp(join(tmpdir(), "ramet-volumes-"));
    this.#cli = new CliHome(this.#home);
    await this.ramet("local", "up");
    const status = JSON.parse((await this.ramet("local", "status", "-o", "json")).stdout) as { kubeconfig: string };
    this.#kubeconfigPath = status.kubeconfig;
    this.#client = new KubeClient(await connectionFromKubeconfig({ path: status.kubeconfig }));
  }

  /** Of the administrator. */
  get kubeconfigPath(): string {
    return this.#kubeconfigPath;
  }

  /** The path of a file in the home directory. */
  file(name: string): string {
    return join(this.#home, name);
  }

  async close(): Promise<void> {
    await this.#client?.close();
    await this.ramet("local", "down", "--purge");
    await rm(this.#home, { recursive: true, force: true });
  }

  /** Runs a command, which must succeed. */
  async ramet(...args: string[]): Promise<Outcome> {
    const outcome = await this.cli.ramet(args);
    expect(outcome.exitCode, outcome.stderr).toBe(0);
    return outcome;
  }

  get sandboxes(): ResourceClient<Sandbox> {
    return this.client.resource(refOf(sandboxKind), (value) => Sandbox.parse(value));
  }

  get checkpoints(): ResourceClient<Checkpoint> {
    return this.client.resource(refOf(checkpointKind), (value) => Checkpoint.parse(value));
  }

  async create(kind: keyof typeof kinds, name: string, spec: object): Promise<void> {
    const ref = refOf(kinds[kind]);
    const { group, version } = ref;
    const apiVersion = `${group}/${version}`;
    await this.client.resource(ref).create({ apiVersion, kind, metadata: { name, namespace }, spec });
  }

  async untilRunning(name: string): Promise<Sandbox> {
    let found: Sandbox | undefined;
    await expect
      .poll(
        async () => {
          found = await this.sandboxes.find({ namespace, name });
          if (found?.status?.phase === "Failed") throw new Error(found.status.message);
          return findCondition(found?.status?.conditions, "Ready")?.status;
        },
        { timeout: 60_000 },
      )
      .toBe("True");
    return found!;
  }

  /** Creates a sandbox by the command line. */
  async clone(name: string, ...args: string[]): Promise<Sandbox> {
    await this.ramet("sandbox", "create", "--name", name, ...args);
    return this.untilRunning(name);
  }

  /** Creates a Checkpoint, and waits until it has finished. */
  async taken(name: string, spec: object): Promise<Checkpoint> {
    await this.create("Checkpoint", name, spec);
    const isFinished = ({ status }: Checkpoint) => status?.completionTime !== undefined;
    await expect
      .poll(async () => isFinished(await this.checkpoints.get({ namespace, name })), { timeout: 60_000 })
      .toBe(true);
    return this.checkpoints.get({ namespace, name });
  }

  /** Takes a checkpoint by the command line. */
  async capture(...args: string[]): Promise<Checkpoint> {
    const id = (await this.ramet("checkpoint", "create", ...args)).stdout.trim();
    const { items } = await this.checkpoints.list({ namespace });
    return items.find(({ status }) => status?.checkpointId === id)!;
  }

  /** Clones a checkpoint in a namespace, and reads a file of its volume. */
  async noteIn(namespace: string, name: string, checkpointId: string): Promise<string> {
    await this.ramet("sandbox", "create", "--from", checkpointId, "--name", name, "-n", namespace);
    return (await this.ramet("sandbox", "exec", name, "-n", namespace, "--", "cat", "/data/note")).stdout.trim();
  }

  /** Whether the driver has a snapshot. */
  async hasSnapshot(handle: string): Promise<boolean> {
    return (await readdir(join(this.#directory.volumes, "snapshots"))).includes(handle);
  }

  /** The process of a part of the cluster. */
  pid(part: string): number {
    const { parts = [] } = readStatus(this.#directory.status) ?? {};
    const { process: found } = parts.find(({ name }) => name === part) ?? {};
    if (found === undefined) throw new Error(`${part} does not run`);
    return found.pid;
  }

  /** A file of a claim, as the node sees it. */
  async readVolume(claim: string, file: string): Promise<string> {
    const { volumeName = "" } = (await claimsIn(this.client).get({ namespace, name: claim })).spec;
    const { csi } = (await volumesIn(this.client).get({ name: volumeName })).spec;
    return readFile(join(this.#directory.volumes, "volumes", csi?.volumeHandle ?? "", "data", file), "utf8");
  }

  get #directory(): ClusterDirectory {
    return clusterDirectory("default", { XDG_DATA_HOME: this.#home });
  }

  shell(sandbox: string, command: string): Promise<string> {
    return this.cli.exec(sandbox, "sh", "-c", command);
  }
}

/** One for the tests of a file. */
export function volumesWorld(): VolumesWorld {
  const world = new VolumesWorld();
  beforeAll(() => world.open(), 400_000);
  afterAll(() => world.close());
  return world;
}
