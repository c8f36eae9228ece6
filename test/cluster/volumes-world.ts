import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { claimsIn, volumesIn } from "../../src/kube/volumes/volumes.ts";
import { clusterDirectory, type ClusterDirectory } from "../../src/local/cluster-directory.ts";
import { readStatus } from "../../src/local/cluster-status.ts";
import { type Outcome, RametUser } from "../setup/ramet-user.ts";
import { CliHome } from "./cli-home.ts";

const namespace = "default";

/** A local cluster with real volumes, the real snapshot-controller and gVisor, and the command line as its users have it. */
export class VolumesWorld extends RametUser {
  readonly namespace = namespace;
  #home = "";
  #cli: CliHome | undefined;
  #client: KubeClient | undefined;
  /** The path of the administrator's kubeconfig. */
  kubeconfig = "";

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
    this.kubeconfig = status.kubeconfig;
    this.#client = new KubeClient(await connectionFromKubeconfig({ path: status.kubeconfig }));
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

  run(...args: string[]): Promise<Outcome> {
    return this.cli.ramet(args);
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
