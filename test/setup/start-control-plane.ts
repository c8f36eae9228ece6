import { chmod, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { systemClock, type Clock } from "../../src/base/clock.ts";
import { portWasTaken, startApiServer, writeKubeconfig } from "../../src/local/control-plane/api-server.ts";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";
import type { Child } from "../../src/local/control-plane/child.ts";
import { startEtcd } from "../../src/local/control-plane/etcd.ts";
import { openPki, type Pki } from "../../src/local/control-plane/pki.ts";
import { freePort } from "./free-port.ts";

export interface ControlPlaneOptions {
  /** Directory for the database, the certificates and the logs. Created if missing, and accessible only to this user. */
  dir: string;
  programs: { etcd: string; "kube-apiserver": string };
  /**
   * Whether confirmed writes survive a power failure. Costs an fsync per write (a few milliseconds). Without it, a power
   * failure can destroy the whole database.
   * @default true
   */
  durable?: boolean;
  /** The name of cluster and context in the kubeconfig. @default "ramet" */
  name?: string;
  /** The API server's port. @default a free one */
  port?: number;
  /** Which built-in APIs are served; see `ApiServerOptions`. @default "needed" */
  apis?: "needed" | "all";
  clock?: Clock;
  /** Aborts the start. Does not stop processes that have been started. */
  signal?: AbortSignal;
}

/** A running etcd and API server. */
export interface ControlPlane {
  /** URL of the API server. */
  server: string;
  port: number;
  dir: string;
  /** For `kubectl`, with all permissions. */
  kubeconfigPath: string;
  /** Certificate of the authority, PEM. */
  ca: string;
  /** Client certificate of group `system:masters`. */
  admin: KeyPair;
  pki: Pki;
  etcd: Child;
  apiServer(): Child;
  /** Sends SIGKILL. */
  killApiServer(): Promise<void>;
  /** Starts the API server again on its port, after stopping it if it runs. */
  restartApiServer(signal?: AbortSignal): Promise<void>;
  /** Stops both processes. Resolves when they have exited. */
  stop(): Promise<void>;
}

/** For many API servers that live for seconds: a quarter less CPU time than with the default of local clusters. */
export const testGogc = 400;

/** Starts etcd, then the API server, and waits until it is ready: about 2 s when warm. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { programs, signal } = options;
  const dir = resolve(options.dir);
  const clock = options.clock ?? systemClock;
  const name = options.name ?? "ramet";
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await chmod(dir, 0o700);
  const pki = await openPki(join(dir, "pki"), () => clock.now());
  const shared = { dir, clock, ...(signal === undefined ? {} : { signal }) };
  const etcd = await startEtcd({ ...shared, program: programs.etcd, durable: options.durable ?? true });
  try {
    const serve = (port: number, own = shared): Promise<Child> =>
      startApiServer({
        ...own,
        program: programs["kube-apiserver"],
        pki,
        port,
        apis: options.apis ?? "needed",
        gogc: testGogc,
      });
    const started = await onFreePort(options.port, serve);
    const { port } = started;
    let apiServer = started.child;
    const server = `https://127.0.0.1:${port}`;
    const admin = await pki.issue({ commonName: "ramet-admin", organizations: ["system:masters"], use: "client" });
    const kubeconfigPath = join(dir, "kubeconfig");
    await writeKubeconfig(kubeconfigPath, { name, server, ca: pki.ca, client: admin });
    return {
      server,
      port,
      dir,
      kubeconfigPath,
      ca: pki.ca,
      admin,
      pki,
      etcd,
      apiServer: () => apiServer,
      killApiServer: () => apiServer.kill(),
      restartApiServer: async (restartSignal) => {
        if (apiServer.running()) await apiServer.stop();
        apiServer = await serve(port, {
          dir,
          clock,
          ...(restartSignal === undefined ? {} : { signal: restartSignal }),
        });
      },
      stop: async () => {
        await apiServer.stop();
        await etcd.stop();
      },
    };
  } catch (error) {
    await etcd.kill();
    throw error;
  }
}

/** Chooses another port if another process takes the free one before it is used. */
async function onFreePort(
  requested: number | undefined,
  serve: (port: number) => Promise<Child>,
): Promise<{ port: number; child: Child }> {
  for (let attempt = 1; ; attempt += 1) {
    const port = requested ?? (await freePort());
    try {
      return { port, child: await serve(port) };
    } catch (error) {
      if (requested !== undefined || attempt >= 5 || !portWasTaken(error)) throw error;
    }
  }
}
