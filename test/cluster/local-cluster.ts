import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Agent, fetch } from "undici";
import { engineId } from "../../src/api/engine/engine.ts";
import { systemClock } from "../../src/base/clock.ts";
import { engineBuild } from "../../src/cell/sandbox/engine-build.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { clusterDirectory, type ClusterDirectory } from "../../src/local/cluster-directory.ts";
import { readStatus } from "../../src/local/cluster-status.ts";
import { type ClusterSetting, localCellImage } from "../../src/local/cluster-setting.ts";
import { stopCluster } from "../../src/local/down.ts";
import { NodePod } from "../../src/local/node/pod.ts";
import { prepareCluster } from "../../src/local/prepare-cluster.ts";
import { cacheDirectory } from "../../src/local/tools/tool.ts";
import { startCluster, type UpResult } from "../../src/local/up.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { testGogc } from "../setup/start-control-plane.ts";

/** The setting of a cluster for tests, which kill its processes more often than anything else does. */
export const hurried: Partial<ClusterSetting> = { apiServerGogc: testGogc, longestRestartPauseMilliseconds: 500 };

/** A real local cluster in its own directory. */
export class TestCluster {
  readonly directory: ClusterDirectory;
  readonly #home: string;
  readonly #ownImages: boolean;
  #client: KubeClient | undefined;

  private constructor(home: string, ownImages: boolean) {
    this.#home = home;
    this.#ownImages = ownImages;
    this.directory = clusterDirectory("test", { XDG_DATA_HOME: home });
  }

  static async create({ ownImages = false } = {}): Promise<TestCluster> {
    const home = await mkdtemp(join(tmpdir(), "ramet-local-"));
    if (ownImages) {
      await mkdir(join(home, "cache", "ramet"), { recursive: true });
      // A cache without tools would build some of them in each run, for minutes.
      await symlink(join(cacheDirectory(), "tools"), join(home, "cache", "ramet", "tools"));
    }
    return new TestCluster(home, ownImages);
  }

  /** A cluster in a directory that exists, which another process may have started. */
  static at(home: string): TestCluster {
    return new TestCluster(home, false);
  }

  /** With `ownImages`, the cluster has only the images that are added with this environment. */
  get environment(): NodeJS.ProcessEnv {
    const own = this.#ownImages ? { XDG_CACHE_HOME: join(this.#home, "cache") } : {};
    return { ...process.env, XDG_DATA_HOME: this.#home, ...own };
  }

  /**
   * @param program the command of the cluster's parts
   * @param tools programs instead of Ramet's own
   */
  async up(
    program: readonly string[] = builtPrograms.part,
    tools: Partial<ClusterSetting["tools"]> = {},
    signal = AbortSignal.timeout(180_000),
  ): Promise<UpResult> {
    const prepared = await prepareCluster({
      name: "test",
      dataDirectory: dirname(this.directory.path),
      clock: systemClock,
      signal,
      progress: () => undefined,
    });
    const own = { ...prepared, program: [...program], cell: [...builtPrograms.cell], ...hurried };
    const setting = Object.keys(tools).length === 0 ? own : await withTools(own, { ...own.tools, ...tools });
    const { environment } = this;
    return startCluster({ directory: this.directory, setting, clock: systemClock, signal, environment });
  }

  async down(options: { purge?: boolean } = {}): Promise<{ wasUp: boolean }> {
    await this.#client?.close();
    this.#client = undefined;
    const signal = AbortSignal.timeout(120_000);
    return stopCluster({ directory: this.directory, clock: systemClock, signal, purge: options.purge ?? false });
  }

  async remove(): Promise<void> {
    await this.down({ purge: true });
    await rm(this.#home, { recursive: true, force: true });
  }

  async client(): Promise<KubeClient> {
    this.#client ??= new KubeClient(await connectionFromKubeconfig({ path: this.directory.kubeconfig }));
    return this.#client;
  }

  /** The process id of a part of the cluster, or of its supervisor. */
  pid(part: string): number {
    const status = readStatus(this.directory.status);
    const found = part === "supervisor" ? status?.supervisor : status?.parts.find(({ name }) => name === part)?.process;
    if (found === undefined) throw new Error(`${part} does not run`);
    return found.pid;
  }

  /** Creates a Sandbox that runs this Python program, from the image `python` or another one. */
  async createSandbox(
    name: string,
    code: string,
    { image = "python", container = {}, volumes = [] }: { image?: string; container?: object; volumes?: object[] } = {},
  ): Promise<void> {
    const client = await this.client();
    await client.resource({ ...sandboxes, kind: "Sandbox" }).create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name, namespace: "default" },
      spec: {
        template: {
          spec: {
            containers: [{ name: "main", image, command: ["python3", "-u", "-c", code], ...container }],
            volumes,
          },
        },
      },
    });
  }

  async deleteSandbox(name: string): Promise<void> {
    await (await this.client()).resource({ ...sandboxes, kind: "Sandbox" }).delete({ namespace: "default", name });
  }

  /** Resolves when the condition holds for the Pod; undefined is a deleted Pod. */
  untilPod(
    name: string,
    holds: (pod: NodePod | undefined) => boolean,
    namespace = "default",
  ): Promise<NodePod | undefined> {
    return this.until(coreResources.pods, { namespace, name }, (value) => NodePod.parse(value), holds);
  }

  /** Resolves when the condition holds for the object; undefined is a deleted object. */
  async until<T extends KubeObject>(
    ref: ResourceRef,
    { namespace, name }: { namespace: string; name: string },
    read: (value: unknown) => T,
    holds: (object: T | undefined) => boolean,
  ): Promise<T | undefined> {
    const resource = (await this.client()).resource(ref, read);
    const found = await resource.find({ namespace, name });
    if (holds(found)) return found;
    const { resourceVersion } = await resource.list({ namespace });
    const now = await resource.find({ namespace, name });
    if (holds(now)) return now;
    const options = { namespace, fieldSelector: `metadata.name=${name}`, resourceVersion };
    const signal = AbortSignal.timeout(120_000);
    let last: unknown;
    try {
      for await (const event of resource.watch({
        ...options,
        timeoutSeconds: 120,
        stallMilliseconds: 120_000,
        signal,
      })) {
        if (event.type === "BOOKMARK") continue;
        last = event.object;
        const object = event.type === "DELETED" ? undefined : resource.read(event.object);
        if (holds(object)) return object;
      }
    } catch (cause) {
      const seen = JSON.stringify((last as KubeObject | undefined) ?? now);
      throw new Error(`${ref.plural} ${name} did not reach the expected state: ${seen}`, { cause });
    }
    throw new Error(`${ref.plural} ${name} did not reach the expected state`);
  }

  /** The log as `kubectl logs` requests it. With `follow`, resolves when the Pod has ended. */
  logs(pod: string, query = ""): Promise<string> {
    return this.#readLog(pod, query, () => false);
  }

  /** Resolves when the entrypoint has printed a line. */
  async untilPrinted(pod: string): Promise<void> {
    await this.#readLog(pod, "follow=true", (text) => text.includes("\n"));
  }

  async #readLog(pod: string, query: string, isEnough: (text: string) => boolean): Promise<string> {
    const { server, ca, credentials } = await connectionFromKubeconfig({ path: this.directory.kubeconfig });
    const { cert, key } = (await credentials.current(false)) as { cert: string; key: string };
    const dispatcher = new Agent({ connect: { ca: ca ?? "", cert, key } });
    try {
      const response = await fetch(`${server}/api/v1/namespaces/default/pods/${pod}/log?${query}`, { dispatcher });
      const decoder = new TextDecoder();
      let text = "";
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk as Uint8Array, { stream: true });
        if (isEnough(text)) break;
      }
      return text;
    } finally {
      await dispatcher.destroy();
    }
  }
}

const sandboxes = { group: "agents.kruise.io", version: "v1alpha1", plural: "sandboxes", namespaced: true };

async function withTools(setting: ClusterSetting, tools: ClusterSetting["tools"]): Promise<ClusterSetting> {
  const cellEngine = engineId(await engineBuild({ runsc: tools.runsc, guest: tools["ramet-guest"] }));
  return { ...setting, tools, cellEngine, cellImage: localCellImage(cellEngine) };
}
