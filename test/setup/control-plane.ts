import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { explicitConnection, type Connection } from "../../src/kube/connection.ts";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { type Apis, borrowPlane, type PlaneFiles, planesVariable } from "./borrowed-plane.ts";
import { startControlPlane as start } from "./start-control-plane.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";

export interface TestControlPlaneOptions {
  /** @default a new directory, removed by `stop` */
  dir?: string;
  /** `all`: also Deployments and other kinds that have no controller here. @default "needed" */
  apis?: Apis;
  signal?: AbortSignal;
  log?: (line: string) => void;
}

/** A real etcd and kube-apiserver for tests. */
export interface TestControlPlane {
  server: string;
  /** Kubeconfig of the administrator. */
  kubeconfigPath: string;
  /** Connection of the administrator. */
  connection: Connection;
  /** PEM. */
  ca: string;
  adminCert: string;
  adminKey: string;
  dir: string;
  stop(): Promise<void>;
}

/** A control plane that its test may kill. */
export interface OwnControlPlane extends TestControlPlane {
  /** Stops the API server if it runs and starts it again on its port. */
  restartApiServer(): Promise<void>;
  /** Sends SIGKILL. */
  killApiServer(): Promise<void>;
}

/**
 * Opens a control plane that has Ramet's CRDs and nothing else: one that an earlier file of this run has used, if there is one.
 * Its database is that of a new one. Tests that kill processes, or that need a cluster without CRDs, start their own.
 */
export async function openControlPlane(apis: Apis = "needed"): Promise<TestControlPlane> {
  const shared = process.env[planesVariable];
  if (shared === undefined) {
    const plane = await startControlPlane({ apis });
    const client = new KubeClient(plane.connection);
    await installCrds(client);
    await client.close();
    return plane;
  }
  const { giveBack, ...files } = await borrowPlane(shared, apis);
  return { ...files, connection: administrator(files), stop: giveBack };
}

/** Starts a control plane that does not sync its writes to the disk. */
export async function startControlPlane(options: TestControlPlaneOptions = {}): Promise<OwnControlPlane> {
  const { signal, log } = options;
  const programs = await acquireTools({
    names: ["etcd", "kube-apiserver"],
    ...(signal === undefined ? {} : { signal }),
    ...(log === undefined ? {} : { progress: log }),
  });
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "ramet-test-")));
  const plane = await start({
    dir,
    programs,
    durable: false,
    apis: options.apis ?? "needed",
    ...(signal === undefined ? {} : { signal }),
  });
  const { server, kubeconfigPath, ca } = plane;
  const files = { server, kubeconfigPath, ca, adminCert: plane.admin.certificate, adminKey: plane.admin.key, dir };
  return {
    ...files,
    connection: administrator(files),
    restartApiServer: () => plane.restartApiServer(),
    killApiServer: () => plane.killApiServer(),
    stop: async () => {
      await plane.stop();
      if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}

function administrator({ server, ca, adminCert: cert, adminKey: key }: PlaneFiles): Connection {
  return explicitConnection({ server, ca, cert, key });
}
