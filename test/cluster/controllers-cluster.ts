import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Pod } from "../../src/api/schema/pod.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { createInformers, sandboxResources, type Informers } from "../../src/controllers/cluster/resources.ts";
import { runControllers, type RunControllersOptions } from "../../src/controllers/run.ts";
import type { Informer } from "../../src/kube/informer.ts";
import type { Connection } from "../../src/kube/connection.ts";
import { KubeClient, type RequestRecord } from "../../src/kube/kube-client.ts";
import { silentLog, type Log } from "../../src/base/log.ts";
import { nameOfKey, type KubeObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import type { CheckpointStore } from "../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { ControllerProcess } from "../bench/controller-process.ts";
import type { ApiLine } from "./api-line.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";

export interface ClusterOptions {
  /** Runs Pods until `signal` is aborted. Resolves when it accepts Pods. */
  startNode: (context: NodeContext) => Promise<{ stopped: Promise<void> }>;
  /** Allowed egress of sandboxes. @default the controllers' default */
  egress?: NonNullable<RunControllersOptions["network"]>["egress"];
  /** The resolvers of sandboxes. @default those of the machine */
  dns?: NonNullable<RunControllersOptions["network"]>["dns"];
  /** Read at each start of the controllers. @default checkpoints are not encrypted */
  encryptionSecret?: RunControllersOptions["store"]["encryptionSecret"];
  /** @default the controllers' default */
  sweeping?: NonNullable<RunControllersOptions["upkeep"]>["sweeping"];
  /** @default the controllers' default */
  keyRotation?: NonNullable<RunControllersOptions["upkeep"]>["keyRotation"];
  /** The cell image of the controllers; read at each start. @default one name */
  cellImage?: string;
  /**
   * Whether the controllers are a process, which SIGKILL ends. Of the other options, it has only
   * `cellImage` and `lineTo`. @default they run in the process of the test
   */
  ownProcess?: boolean;
  /** Starts that process. @default `ramet controller` */
  startProcess?: (context: ProcessContext) => Promise<{ kill: () => Promise<void> }>;
  /** Read at each start of the controllers. @default false */
  importVolumes?: RunControllersOptions["importVolumes"];
  /** @default the controllers look no images up */
  registries?: NonNullable<RunControllersOptions["registries"]>["access"];
  /** @default the controllers' default */
  pullTimeoutMilliseconds?: number;
  /** Store of the checkpoints. @default a directory */
  store?: CheckpointStore;
  /** Backends other than `cell`; read at each start of the controllers. @default none */
  backends?: RunControllersOptions["store"]["backends"];
  /** Whether the API server has all APIs, as a scheduler needs them. @default false */
  allApis?: boolean;
  /** Opens a proxy between the controllers and the API server. */
  lineTo?: (server: string, controlPlane: TestControlPlane) => Promise<Pick<ApiLine, "server" | "close">>;
  /** Timeout of the controllers' API requests. @default the client's default */
  requestTimeoutMilliseconds?: number;
  log?: Log;
}

export interface ProcessContext {
  kubeconfigPath: string;
  directory: string;
  storePath: string;
  cellImage: string;
  signal: AbortSignal;
}

export interface NodeContext {
  client: KubeClient;
  controlPlane: TestControlPlane;
  directory: string;
  signal: AbortSignal;
}

/** A real API server, the real controllers and a real store. `startNode` decides what runs the Pods. */
export interface Cluster {
  client: KubeClient;
  /** Objects as a user sees them, independent of the controllers' caches. */
  seen: Informers;
  storePath: string;
  /** Connection of the administrator. */
  connection: Connection;
  /** Kubeconfig of the administrator. */
  kubeconfigPath: string;
  /** Requests of the controllers since the last call. */
  requests: () => RequestRecord[];
  /** Stops the controllers without finishing their pending work, like a crash, and starts them again. */
  restartControllers: () => Promise<void>;
  stopControllers: () => Promise<void>;
  startControllers: () => Promise<void>;
  namespace: (name: string) => Promise<void>;
  create: (manifest: Manifest) => Promise<void>;
  sandbox: (key: string, holds: (sandbox: Sandbox) => boolean) => Promise<Sandbox>;
  checkpoint: (key: string, holds: (checkpoint: Checkpoint) => boolean) => Promise<Checkpoint>;
  pod: (key: string, holds: (pod: Pod) => boolean) => Promise<Pod>;
  untilDeleted: (kind: keyof Informers, key: string) => Promise<void>;
  close: () => Promise<void>;
}

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; annotations?: Record<string, string>; [field: string]: unknown };
  [field: string]: unknown;
}

export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { startNode, egress, dns, lineTo, requestTimeoutMilliseconds, log = silentLog } = options;
  const controlPlane = await openControlPlane(options.allApis === true ? "all" : "needed");
  const directory = await mkdtemp(join(tmpdir(), "ramet-"));
  const storePath = join(directory, "store");
  await mkdir(storePath);
  const { connection } = controlPlane;
  const client = new KubeClient(connection);
  const line = await lineTo?.(controlPlane.server, controlPlane);
  const ownConnection = line === undefined ? connection : { ...connection, server: line.server };
  const records: RequestRecord[] = [];
  const end = new AbortController();
  const seen = createInformers(client, log);

  const ownKubeconfig = async (): Promise<string> => {
    const { kubeconfigPath, server } = controlPlane;
    if (line === undefined) return kubeconfigPath;
    const path = join(directory, "kubeconfig");
    await writeFile(path, (await readFile(kubeconfigPath, "utf8")).replaceAll(server, line.server), { mode: 0o600 });
    return path;
  };

  let endControllers: (() => Promise<void>) | undefined;
  const startProcess = async (): Promise<void> => {
    const { cellImage = "ramet.dev/cell:test", startProcess: startOwn = rametController } = options;
    const kubeconfigPath = await ownKubeconfig();
    const running = await startOwn({ kubeconfigPath, directory, storePath, cellImage, signal: end.signal });
    endControllers = () => running.kill();
  };
  const startControllers = async (): Promise<void> => {
    if (options.ownProcess === true) {
      await startProcess();
      return;
    }
    const abort = new AbortController();
    const own = new KubeClient(ownConnection, {
      onRequest: (record) => records.push(record),
      ...(requestTimeoutMilliseconds !== undefined && { requestTimeoutMilliseconds }),
    });
    const ready = Promise.withResolvers<undefined>();
    const ended = runControllers({
      client: own,
      store: {
        checkpoints: options.store ?? directoryStore({ root: storePath }),
        encryptionSecret: options.encryptionSecret,
        backends: options.backends && [...options.backends],
      },
      cells: { cellImage: options.cellImage ?? "ramet.dev/cell:test" },
      installCrds: true,
      network: { egress, ...(dns && { dns }) },
      registries: { access: options.registries, pullTimeoutMilliseconds: options.pullTimeoutMilliseconds },
      importVolumes: options.importVolumes,
      upkeep: { keyRotation: options.keyRotation, sweeping: options.sweeping },
      log,
      onReady: () => {
        ready.resolve(undefined);
      },
      signal: abort.signal,
    });
    endControllers = async () => {
      abort.abort();
      await ended;
      await own.close();
    };
    await Promise.race([ready.promise, ended]);
  };
  const stopControllers = async (): Promise<void> => {
    await endControllers?.();
    endControllers = undefined;
  };

  await startControllers();
  const informers = Object.values(seen) as Informer<KubeObject>[];
  const following = informers.map((informer) => informer.run(end.signal));
  await Promise.all(informers.map((informer) => informer.synced(end.signal)));
  const node = await startNode({ client, controlPlane, directory, signal: end.signal });

  return {
    client,
    seen,
    storePath,
    connection,
    kubeconfigPath: controlPlane.kubeconfigPath,
    requests: () => records.splice(0),
    startControllers,
    stopControllers,
    restartControllers: async () => {
      await stopControllers();
      await startControllers();
    },
    namespace: (name) => makeNamespace(client, name),
    create: async (manifest) => {
      const ref = Object.values(sandboxResources).find(({ kind }) => kind === manifest.kind) ?? coreResources.pods;
      await client.resource(ref).create(manifest);
    },
    sandbox: (key, holds) => until(seen.sandboxes, key, holds),
    checkpoint: (key, holds) => until(seen.checkpoints, key, holds),
    pod: (key, holds) => until(seen.pods, key, holds),
    untilDeleted: (kind, key) => untilDeleted(seen[kind], key),
    close: async () => {
      await stopControllers();
      end.abort();
      await node.stopped;
      await Promise.all(following);
      await client.close();
      await line?.close();
      await controlPlane.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function rametController({ kubeconfigPath, directory, cellImage, signal }: ProcessContext): Promise<ControllerProcess> {
  const more = ["--no-image-lookup"];
  return ControllerProcess.start(kubeconfigPath, directory, signal, {
    cellImage,
    more,
    timeoutMilliseconds: patienceMilliseconds,
  });
}

/** Timeout for a busy machine. On an idle machine, the conditions are true almost immediately. */
const patienceMilliseconds = 90_000;

/** Resolves with the object when `holds` is true for it. Rejects after a timeout with the object's last state. */
function until<T extends KubeObject>(informer: Informer<T>, key: string, holds: (object: T) => boolean): Promise<T> {
  return new Promise((resolve, reject) => {
    const check = (): void => {
      const object = informer.store.get(key);
      if (object === undefined || !holds(object)) return;
      end();
      resolve(object);
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error(`timed out waiting for ${key}: ${JSON.stringify(informer.store.get(key), null, 1)}`));
    }, patienceMilliseconds);
    const stop = informer.store.subscribe(check);
    const end = (): void => {
      clearTimeout(timer);
      stop();
    };
    check();
  });
}

async function untilDeleted(informer: Informers[keyof Informers], key: string): Promise<void> {
  const known = informer.store.get(key) ?? (await informer.resource.find(nameOfKey(key)));
  if (known === undefined) return;
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      stop();
      reject(
        new Error(`timed out waiting for the deletion of ${key}: ${JSON.stringify(informer.store.get(key), null, 1)}`),
      );
    }, patienceMilliseconds);
    const check = (): void => {
      if (informer.store.byUid(known.metadata.uid) !== undefined) return;
      clearTimeout(timer);
      stop();
      resolve();
    };
    const stop = informer.store.subscribe(check);
    check();
  });
}
