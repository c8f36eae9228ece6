import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { resultOr } from "../../base/errors.ts";
import { specialAddresses } from "../../base/special-addresses.ts";
import type { ClusterDirectory, MeasuredPart } from "../cluster-directory.ts";
import { isReadyFileOf, readyFilePath, type PartStatus } from "../cluster-status.ts";
import type { ClusterSetting } from "../cluster-setting.ts";
import { portWasTaken, startApiServer, writeKubeconfig } from "../control-plane/api-server.ts";
import { type Child, startChild, freePort, waitUntilReady } from "../control-plane/child.ts";
import { keepDomainCertificate } from "../control-plane/domain-certificate.ts";
import { startEtcd } from "../control-plane/etcd.ts";
import { openPki } from "../control-plane/pki.ts";
import { templateAliases, publishGateway } from "./seed-cluster.ts";
import { Part } from "./part.ts";

export interface ClusterPartsOptions {
  directory: ClusterDirectory;
  setting: ClusterSetting;
  clock: Clock;
  onChange: (status: PartStatus) => void;
}

/** The processes of a cluster. */
export type ClusterParts = ReturnType<typeof clusterParts>;

export function clusterParts(options: ClusterPartsOptions) {
  const { directory, setting, clock } = options;
  // It drains its connections, which a local cluster does not wait for.
  const gateway = part(options, "gateway", 1_000, (signal) => startGateway(options, signal));
  return {
    gateway,
    etcd: part(options, "etcd", 5_000, (signal) =>
      startEtcd({ program: setting.tools.etcd, dir: directory.path, durable: true, clock, signal }),
    ),
    apiServer: part(options, "api-server", 5_000, (signal) => serveApi(options, signal)),
    // It stops its Pods first.
    node: part(options, "node", 20_000, (signal) => startNode(options, signal)),
    controller: part(options, "controller", 10_000, (signal) =>
      startServer(options, "controller", controllerArguments(options), signal),
    ),
    clientApi: part(options, "client-api", 1_000, async (signal) => {
      const known = readPort(directory.clientApiPort);
      const child = await startClientApi(options, signal);
      // The gateway proxies requests to it.
      if (readPort(directory.clientApiPort) !== known) gateway.restart();
      return child;
    }),
  };
}

/** @param graceMilliseconds between SIGTERM and SIGKILL */
export function part(
  { clock, onChange, setting }: ClusterPartsOptions,
  name: string,
  graceMilliseconds: number,
  start: (signal: AbortSignal) => Promise<Child>,
): Part {
  const longestPauseMilliseconds = setting.longestRestartPauseMilliseconds;
  return new Part({ name, clock, onChange, graceMilliseconds, start, longestPauseMilliseconds });
}

async function serveApi({ directory, setting, clock }: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const pki = await openPki(join(directory.path, "pki"), () => clock.now());
  const program = setting.tools["kube-apiserver"];
  const { path: dir, name, kubeconfig } = directory;
  return keptPort(join(dir, "port"), async (port) => {
    const child = await startApiServer({ program, dir, port, pki, gogc: setting.apiServerGogc, clock, signal });
    const client = await pki.issue({ commonName: "ramet-admin", organizations: ["system:masters"], use: "client" });
    const names = { name: name === "default" ? "ramet" : `ramet-${name}`, server: `https://127.0.0.1:${port}` };
    await writeKubeconfig(kubeconfig, { ...names, ca: pki.ca, client });
    return child;
  });
}

/** The options of the controllers. A machine's private networks have devices that expect no hostile programs. */
export function controllerArguments({
  directory,
  setting,
}: Pick<ClusterPartsOptions, "directory" | "setting">): string[] {
  const denied = setting.allowPrivateNetworks ? [] : specialAddresses.private;
  return [
    "--store-directory",
    directory.store,
    "--cell-image",
    setting.cellImage,
    ...(setting.cellEngine === undefined ? [] : ["--cell-engine", setting.cellEngine]),
    // The node has the images, and knows how each is started.
    "--no-image-lookup",
    "--import-volumes",
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
    // It resumes paused sandboxes for traffic through the client API, which starts at the same time.
    const clientApi = ["--client-api", `http://127.0.0.1:${await reservedPort(directory.clientApiPort)}`];
    return startServer(options, "gateway", ["--port", String(port), ...clientApi, ...tls], signal);
  });
}

function startClientApi(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  return keptPort(options.directory.clientApiPort, (port) =>
    startServer(options, "client-api", ["--port", String(port), ...templateAliases], signal),
  );
}

/** Starts a server of `ramet`, which is ready when it says so at its port for metrics. `ramet local status` shows that port. */
async function startServer(
  options: ClusterPartsOptions,
  name: MeasuredPart,
  args: readonly string[],
  signal: AbortSignal,
): Promise<Child> {
  const { directory, clock } = options;
  const port = String(await freePort());
  writeFileSync(directory.metricsPort(name), port, { mode: 0o600 });
  const shared = [name, "--kubeconfig", directory.kubeconfig, "--metrics-port", port];
  const child = await startRamet(options, name, [...shared, ...args]);
  await waitUntilReady(child, { what: `the ${titles[name]}`, clock, signal, ready: () => isReady(port) });
  return child;
}

const titles: Record<MeasuredPart, string> = {
  controller: "controller",
  gateway: "gateway",
  "client-api": "client API",
};

async function startNode(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const { directory, clock } = options;
  const readyFile = readyFilePath(directory, "node");
  rmSync(readyFile, { force: true });
  const child = await startRamet(options, "node", ["local", "node", "--name", directory.name]);
  const ready = () => Promise.resolve(isReadyFileOf(readyFile, child.pid));
  await waitUntilReady(child, { what: "the node", clock, signal, ready });
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
    environment: inheritedEnvironment(),
  });
}

async function isReady(port: string): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200;
  } catch {
    return false;
  }
}

/** The variables of this process's environment that the parts need. */
function inheritedEnvironment(): Record<string, string> {
  const { XDG_DATA_HOME, XDG_CACHE_HOME, TZ, TMPDIR, NODE_COMPILE_CACHE } = process.env;
  return defined({ XDG_DATA_HOME, XDG_CACHE_HOME, TZ, TMPDIR, NODE_COMPILE_CACHE });
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
  const port = Number(resultOr(() => readFileSync(path, "utf8"), ""));
  return Number.isInteger(port) && port > 0 ? port : undefined;
}
