import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { specialAddresses } from "../../base/special-addresses.ts";
import type { ClusterDirectory, MeasuredPart } from "../cluster-directory.ts";
import { isReadyFileOf, readyFilePath, type PartStatus } from "../cluster-status.ts";
import type { ClusterSetting } from "../cluster-setting.ts";
import { portWasTaken, startApiServer, writeKubeconfig } from "../control-plane/api-server.ts";
import { type Child, startChild, freePort, waitUntilReady } from "../control-plane/child.ts";
import { keepDomainCertificate } from "../control-plane/domain-certificate.ts";
import { startEtcd } from "../control-plane/etcd.ts";
import { openPki, type Pki } from "../control-plane/pki.ts";
import { templateAliases, publishGateway } from "./seed-cluster.ts";
import { Part } from "./part.ts";

/** The processes of a cluster, in the order of their start. */
export interface ClusterParts {
  etcd: Part;
  apiServer: Part;
  node: Part;
  controller: Part;
  gateway: Part;
  clientApi: Part;
}

export interface ClusterPartsOptions {
  directory: ClusterDirectory;
  setting: ClusterSetting;
  clock: Clock;
  onChange: (status: PartStatus) => void;
}

export function clusterParts(options: ClusterPartsOptions): ClusterParts {
  const { directory, setting, clock, onChange } = options;
  const shared = { clock, onChange, longestPauseMilliseconds: setting.longestRestartPauseMilliseconds };
  const gateway = new Part({
    ...shared,
    name: "gateway",
    // It drains its connections, which a local cluster does not wait for.
    graceMilliseconds: 1_000,
    start: (signal) => startGateway(options, signal),
  });
  return {
    gateway,
    etcd: new Part({
      ...shared,
      name: "etcd",
      graceMilliseconds: 5_000,
      start: (signal) => startEtcd({ program: setting.tools.etcd, dir: directory.path, durable: true, clock, signal }),
    }),
    apiServer: new Part({
      ...shared,
      name: "api-server",
      graceMilliseconds: 5_000,
      start: (signal) => serveApi(options, signal),
    }),
    node: new Part({
      ...shared,
      name: "node",
      // It stops its Pods first.
      graceMilliseconds: 20_000,
      start: (signal) => startNode(options, signal),
    }),
    controller: new Part({
      ...shared,
      name: "controller",
      graceMilliseconds: 10_000,
      start: (signal) => startController(options, signal),
    }),
    clientApi: new Part({
      ...shared,
      name: "client-api",
      graceMilliseconds: 1_000,
      start: async (signal) => {
        const known = readPort(directory.clientApiPort);
        const child = await startClientApi(options, signal);
        // The gateway proxies requests to it.
        if (readPort(directory.clientApiPort) !== known) gateway.restart();
        return child;
      },
    }),
  };
}

async function serveApi({ directory, setting, clock }: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const pki = await openPki(join(directory.path, "pki"), () => clock.now());
  const program = setting.tools["kube-apiserver"];
  return keptPort(join(directory.path, "port"), async (port) => {
    const child = await startApiServer({
      program,
      dir: directory.path,
      port,
      pki,
      gogc: setting.apiServerGogc,
      clock,
      signal,
    });
    await writeClusterKubeconfig(directory, pki, port);
    return child;
  });
}

async function writeClusterKubeconfig(directory: ClusterDirectory, pki: Pki, port: number): Promise<void> {
  const client = await pki.issue({ commonName: "ramet-admin", organizations: ["system:masters"], use: "client" });
  const name = directory.name === "default" ? "ramet" : `ramet-${directory.name}`;
  await writeKubeconfig(directory.kubeconfig, { name, server: `https://127.0.0.1:${port}`, ca: pki.ca, client });
}

async function startController(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const port = await metricsPortOf(options, "controller");
  const child = await startRamet(options, "controller", controllerArguments(options, port));
  await untilReady(child, "the controller", options, { signal, ready: () => isReady(port) });
  return child;
}

/** The command line of the controllers. A machine's private networks have devices that expect no hostile programs. */
export function controllerArguments(
  { directory, setting }: Pick<ClusterPartsOptions, "directory" | "setting">,
  metricsPort: number,
): string[] {
  const denied = setting.allowPrivateNetworks ? [] : specialAddresses.private;
  return [
    "controller",
    "--kubeconfig",
    directory.kubeconfig,
    "--store-directory",
    directory.store,
    "--cell-image",
    setting.cellImage,
    ...(setting.cellEngine === undefined ? [] : ["--cell-engine", setting.cellEngine]),
    // The node has the images, and knows how each is started.
    "--no-image-lookup",
    "--import-volumes",
    "--metrics-port",
    String(metricsPort),
    "--cell-user-namespaces",
    "never",
    ...(setting.verifyRestores ? [] : ["--no-verify-restores"]),
    ...denied.flatMap((range) => ["--cluster-range", range]),
  ];
}

async function startGateway(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const { directory, setting, clock } = options;
  const { bundle } = await keepDomainCertificate(directory.tls, setting.domain, clock.now());
  const tls = ["--tls-certificate", bundle, "--tls-key", bundle, "--tls-optional"];
  return keptPort(directory.gatewayPort, async (port) => {
    // The port changes if another program has taken it.
    await publishGateway(directory, port);
    const metricsPort = await metricsPortOf(options, "gateway");
    const ports = ["--port", String(port), "--metrics-port", String(metricsPort)];
    // It resumes paused sandboxes for traffic through the client API, which starts at the same time.
    const clientApi = ["--client-api", `http://127.0.0.1:${await reservedPort(directory.clientApiPort)}`];
    const args = ["gateway", "--kubeconfig", directory.kubeconfig, ...ports, ...clientApi, ...tls];
    const child = await startRamet(options, "gateway", args);
    await untilReady(child, "the gateway", options, { signal, ready: () => isReady(metricsPort) });
    return child;
  });
}

async function startClientApi(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const { directory } = options;
  return keptPort(directory.clientApiPort, async (port) => {
    const metricsPort = await metricsPortOf(options, "client-api");
    const ports = ["--port", String(port), "--metrics-port", String(metricsPort)];
    const args = ["client-api", "--kubeconfig", directory.kubeconfig, ...ports, ...templateAliases];
    const child = await startRamet(options, "client-api", args);
    await untilReady(child, "the client API", options, { signal, ready: () => isReady(metricsPort) });
    return child;
  });
}

/** A free port, which `ramet local status` shows. */
async function metricsPortOf({ directory }: ClusterPartsOptions, part: MeasuredPart): Promise<number> {
  const port = await freePort();
  writeFileSync(directory.metricsPort(part), String(port), { mode: 0o600 });
  return port;
}

async function startNode(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const { directory } = options;
  const readyFile = readyFilePath(directory, "node");
  rmSync(readyFile, { force: true });
  const child = await startRamet(options, "node", ["local", "node", "--name", directory.name]);
  await untilReady(child, "the node", options, {
    signal,
    ready: () => Promise.resolve(isReadyFileOf(readyFile, child.pid)),
  });
  return child;
}

/** Starts a part that is a subcommand of `ramet`. */
export function startRamet(
  { directory, setting, clock }: ClusterPartsOptions,
  part: string,
  args: string[],
): Promise<Child> {
  const [program = process.execPath, ...before] = setting.program;
  return startChild({
    program,
    args: [...before, ...args],
    cwd: directory.path,
    logPath: directory.log(part),
    clock,
    environment: inheritedEnvironment(directory),
  });
}

export function untilReady(
  child: Child,
  what: string,
  { clock }: ClusterPartsOptions,
  options: { signal: AbortSignal; ready: () => Promise<boolean> },
): Promise<void> {
  return waitUntilReady(child, { what, clock, timeoutMilliseconds: 60_000, ...options });
}

async function isReady(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200;
  } catch {
    return false;
  }
}

/** The variables of this process's environment that the parts need. */
function inheritedEnvironment(directory: ClusterDirectory): Record<string, string> {
  const names = ["XDG_DATA_HOME", "XDG_CACHE_HOME", "TZ", "TMPDIR"];
  const values = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(values), NODE_COMPILE_CACHE: join(directory.path, "compile-cache") };
}

const maxTries = 5;

/**
 * Serves on the cluster's previous port, so that copies of kubeconfigs and addresses stay valid. Uses a free port for a new
 * cluster or if another program uses the port.
 * @param path the file with the port
 */
async function keptPort<T>(path: string, serve: (port: number) => Promise<T>): Promise<T> {
  let port = await reservedPort(path);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await serve(port);
      writeFileSync(path, String(port), { mode: 0o600 });
      return result;
    } catch (error) {
      if (attempt >= maxTries || !portWasTaken(error)) throw error;
      port = await freePort();
    }
  }
}

/** Returns the port on which a part serves, or will serve if no other program takes it. */
export async function reservedPort(path: string): Promise<number> {
  const kept = readPort(path);
  if (kept !== undefined) return kept;
  const port = await freePort();
  writeFileSync(path, String(port), { mode: 0o600 });
  return port;
}

/** Reads the port from such a file. */
export function readPort(path: string): number | undefined {
  try {
    const port = Number(readFileSync(path, "utf8"));
    return Number.isInteger(port) && port > 0 ? port : undefined;
  } catch {
    return undefined;
  }
}
