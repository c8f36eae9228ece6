import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { explicitConnection, type Connection } from "../../src/kube/connection.ts";
import { startControlPlane as start } from "./start-control-plane.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";

export interface TestControlPlaneOptions {
  /** @default a new directory, removed by `stop` */
  dir?: string;
  /** `all`: also Deployments and other kinds that have no controller here. @default "needed" */
  apis?: "needed" | "all";
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
  readonly etcdPid: number;
  readonly apiServerPid: number;
  /** Stops the API server if it runs and starts it again on its port. */
  restartApiServer(): Promise<void>;
  /** Sends SIGKILL. */
  killApiServer(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a control plane that does not sync its writes to the disk. */
export async function startControlPlane(options: TestControlPlaneOptions = {}): Promise<TestControlPlane> {
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
  return {
    server: plane.server,
    kubeconfigPath: plane.kubeconfigPath,
    connection: explicitConnection({
      server: plane.server,
      ca: plane.ca,
      cert: plane.admin.certificate,
      key: plane.admin.key,
    }),
    ca: plane.ca,
    adminCert: plane.admin.certificate,
    adminKey: plane.admin.key,
    dir,
    etcdPid: plane.etcd.pid,
    get apiServerPid() {
      return plane.apiServer().pid;
    },
    restartApiServer: () => plane.restartApiServer(),
    killApiServer: () => plane.killApiServer(),
    stop: async () => {
      await plane.stop();
      if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}
