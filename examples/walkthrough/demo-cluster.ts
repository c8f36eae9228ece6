import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cluster } from "../../src/cli/cluster/cluster.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { clusterDirectory } from "../../src/local/cluster-directory.ts";

const ramet = fileURLToPath(new URL("../../bin/ramet.mjs", import.meta.url));
const name = "demo";

/** A separate local cluster for the demo. Other clusters on the machine are not affected. */
export class DemoCluster {
  readonly #dataDirectory: string;
  #cluster: Cluster | undefined;

  private constructor(dataDirectory: string) {
    this.#dataDirectory = dataDirectory;
  }

  static async make(): Promise<DemoCluster> {
    return new DemoCluster(await mkdtemp(join(tmpdir(), "ramet-demo-")));
  }

  /**
   * Runs `ramet local up` and returns a client of the cluster.
   * @param onLine receives its progress: the first start on a machine builds tools for minutes
   */
  async up(signal: AbortSignal, onLine: (line: string) => void): Promise<Cluster> {
    await this.#ramet(["local", "up", "--name", name], signal, onLine);
    const connection = await connectionFromKubeconfig({ path: this.kubeconfigPath });
    const client = new KubeClient(connection, { userAgent: "ramet-demo" });
    this.#cluster = new Cluster(client, "default");
    return this.#cluster;
  }

  /** Stops the cluster and removes its data, even if `up` was interrupted. Returns processes, mounts and files that remain. */
  async down(): Promise<string[]> {
    await this.#cluster?.close();
    await this.#ramet(["local", "down", "--name", name, "--purge"]);
    const left = await traces(this.#dataDirectory);
    await rm(this.#dataDirectory, { recursive: true, force: true });
    return left;
  }

  get kubeconfigPath(): string {
    return clusterDirectory(name, this.#environment).kubeconfig;
  }

  get #environment(): NodeJS.ProcessEnv {
    return { ...process.env, XDG_DATA_HOME: this.#dataDirectory };
  }

  /** Runs in a separate session, so that Ctrl-C reaches only the demo, which then cleans up. */
  async #ramet(args: string[], signal?: AbortSignal, onLine: (line: string) => void = () => undefined): Promise<void> {
    signal?.throwIfAborted();
    const child = spawn(process.execPath, [ramet, ...args], {
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const interrupt = (): void => void child.kill("SIGINT");
    signal?.addEventListener("abort", interrupt, { once: true });
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        output.push(line);
        onLine(line);
      });
    }
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${code}:\n${output.join("\n")}`);
  }
}

/** Processes and mounts that name the directory, and files in it. */
async function traces(directory: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  const commandLines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  const processes = commandLines.map((line) => line.replaceAll("\0", " ").trim());
  const mounts = (await readFile("/proc/self/mounts", "utf8")).split("\n");
  const files = await readdir(join(directory, "ramet")).catch(() => []);
  return [...[...processes, ...mounts].filter((line) => line.includes(directory)), ...files];
}
