import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { controllersMetrics } from "../../src/controllers/metrics.ts";
import { runBeside, type RunBesideOptions } from "../../src/controllers/run-beside.ts";
import { runControllers, type RunControllersOptions } from "../../src/controllers/run.ts";
import { KubeClient, type RequestRecord } from "../../src/kube/kube-client.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { startControlPlane, type TestControlPlane } from "../setup/control-plane.ts";

/** Controllers that run in this process. */
export interface RunningControllers {
  /** Resolves when they reconcile, or rejects if they refuse to start. */
  ready: Promise<unknown>;
  ended: Promise<void>;
  /** The reasons for which they stopped working. */
  yields: string[];
  /** How often they began to work. */
  starts: () => number;
  metrics: () => Promise<string>;
  /** The requests since the last call. */
  requests: () => RequestRecord[];
  stop: () => Promise<void>;
}

type CommonOptions = Pick<RunControllersOptions, "client" | "onReady" | "signal"> & {
  metrics: ReturnType<typeof controllersMetrics>;
};

/** A real API server with all its kinds, without any controller. */
export class BesideWorld {
  #plane: TestControlPlane | undefined;
  #client: KubeClient | undefined;
  #directory = "";
  readonly #running: RunningControllers[] = [];

  async open(): Promise<void> {
    this.#plane = await startControlPlane({ apis: "all" });
    this.#client = new KubeClient(this.#plane.connection);
    this.#directory = await mkdtemp(join(tmpdir(), "ramet-beside-"));
  }

  async close(): Promise<void> {
    await this.stopControllers();
    await this.#client?.close();
    await this.#plane?.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }

  async stopControllers(): Promise<void> {
    for (const one of this.#running.splice(0)) await one.stop();
  }

  get plane(): TestControlPlane {
    if (this.#plane === undefined) throw new Error("the world is not open");
    return this.#plane;
  }

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error("the world is not open");
    return this.#client;
  }

  /** Starts the controllers as `ramet controller` does. */
  start(options: Partial<RunControllersOptions> = {}): RunningControllers {
    return this.#run((common, onYield) =>
      runControllers({
        ...common,
        store: { checkpoints: directoryStore({ root: this.#directory }) },
        cells: { cellImage: "ramet.dev/cell:test" },
        otherControllers: { pauseMilliseconds: 100 },
        onYield,
        ...options,
      }),
    );
  }

  /** Starts the controllers as `ramet controller --beside=openkruise` does. */
  startBeside(options: Partial<RunBesideOptions> = {}): RunningControllers {
    return this.#run((common) => runBeside({ ...common, ...options }));
  }

  #run(run: (options: CommonOptions, onYield: (why: string) => void) => Promise<void>): RunningControllers {
    const abort = new AbortController();
    const metrics = controllersMetrics();
    const yields: string[] = [];
    const ready = Promise.withResolvers<undefined>();
    let starts = 0;
    const records: RequestRecord[] = [];
    const own = new KubeClient(this.plane.connection, { onRequest: (record) => records.push(record) });
    const onReady = (): void => {
      starts++;
      ready.resolve(undefined);
    };
    const ended = run({ client: own, metrics, onReady, signal: abort.signal }, (why) => yields.push(why));
    ended.catch(() => undefined);
    const running = {
      ready: Promise.race([ready.promise, ended]),
      ended,
      yields,
      starts: () => starts,
      metrics: () => metrics.registry.metrics(),
      requests: () => records.splice(0),
      stop: async () => {
        abort.abort();
        await ended.catch(() => undefined);
        await own.close();
      },
    };
    running.ready.catch(() => undefined);
    this.#running.push(running);
    return running;
  }

  async create(ref: ResourceRef, manifest: KubeManifest): Promise<void> {
    await this.client.resource(ref).create(manifest);
  }

  async namespace(name: string, labels: Record<string, string> = {}): Promise<void> {
    await this.create(coreResources.namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } });
  }

  /** Creates or renews a lease, as a controller that leads does. */
  async lease(namespace: string, name: string, renewedAt = new Date()): Promise<void> {
    const { leases } = coreResources;
    const renewTime = renewedAt.toISOString().replace("Z", "000Z");
    const spec = { holderIdentity: "manager_1", leaseDurationSeconds: 15, acquireTime: renewTime, renewTime };
    const manifest = {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name, namespace },
      spec,
    };
    await this.client.resource(leases).apply(manifest, { fieldManager: "test", force: true });
  }

  async removeLease(namespace: string, name: string): Promise<void> {
    await this.client.resource(coreResources.leases).delete({ namespace, name });
  }
}
