import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cluster } from "../../src/cli/cluster/cluster.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { clusterDirectory } from "../../src/local/cluster-directory.ts";

const ramet = fileURLToPath(new URL("../../bin/ramet.mjs", import.meta.url));
const name = "demo";

/** A local cluster of the demo's own: another one that runs on this machine is not touched. */
export class DemoCluster {
  readonly #dataFolder: string;
  #cluster: Cluster | undefined;

  private constructor(dataDirectory: string) {
    this.#dataFolder = dataDirectory;
  }

  static async make(): Promise<DemoCluster> {
    return new DemoCluster(await mkdtemp(join(tmpdir(), "ramet-demo-")));
  }

  /** `ramet local up`, and a client of what came up. */
  async up(signal: AbortSignal): Promise<Cluster> {
    await this.#ramet(["local", "up", "--name", name], signal);
    const connection = await connectionFromKubeconfig({ path: this.kubeconfigPath });
    const client = new KubeClient(connection, { userAgent: "ramet-demo" });
    this.#cluster = new Cluster(client, "default");
    return this.#cluster;
  }

  /** Ends everything and removes what was kept, also when `up` was broken off. Answers what is left nevertheless. */
  async down(): Promise<string[]> {
    await this.#cluster?.close();
    await this.#ramet(["local", "down", "--name", name, "--purge"]);
    const left = await traces(this.#dataFolder);
    await rm(this.#dataFolder, { recursive: true, force: true });
    return left;
  }

  get kubeconfigPath(): string {
    return clusterDirectory(name, this.#environment).kubeconfig;
  }

  get #environment(): NodeJS.ProcessEnv {
    return { ...process.env, XDG_DATA_HOME: this.#dataFolder };
  }

  /** In a session of its own, so that Ctrl-C reaches the demo alone, and the demo cleans up. */
  async #ramet(args: string[], signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const child = spawn(process.execPath, [ramet, ...args], {
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const interrupt = (): void => void child.kill("SIGINT");
    signal?.addEventListener("abort", interrupt, { once: true });
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => said.push(chunk.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${code}:\n${said.join("")}`);
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
