import { defined } from "../../base/defined.ts";
import {
  clusterDirectory,
  defaultClusterName,
  type ClusterDirectory,
  measuredParts,
} from "../../local/cluster-directory.ts";
import { localClusters, isSupervised, readStatus, type ClusterStatus } from "../../local/cluster-status.ts";
import { readSetting } from "../../local/cluster-setting.ts";
import { describeHugePages, readHugePages } from "../../local/huge-pages.ts";
import { readPort } from "../../local/supervisor/parts.ts";
import { cacheDirectory, cachedToolVersion } from "../../local/tools/tool.ts";
import { exitCodes } from "../report-error.ts";
import { printLine, type Io } from "../io.ts";
import { age, table } from "../output/render.ts";

export interface StatusOptions {
  name?: string;
  output: "table" | "json";
}

/** `ramet local status`: exits with 1 if the cluster is not up, for scripts. */
export async function localStatus(io: Io, { name = defaultClusterName, output }: StatusOptions): Promise<number> {
  const directory = clusterDirectory(name, io.environment);
  const known = readStatus(directory.status);
  const status = isSupervised(known) ? known : undefined;
  const phase = status?.phase ?? "down";
  const hugePages = await readHugePages();
  const tools = await toolsOf(directory, io.environment);
  const urls = status === undefined ? { metrics: {} } : urlsOf(directory);
  if (output === "json") {
    const { kubeconfig, store, path } = directory;
    const shown = { name, phase, path, kubeconfig, store, ...urls, hugePages, tools, ...status };
    printLine(io.stdout, JSON.stringify(shown, undefined, 2));
  } else {
    printLine(io.stdout, `cluster ${name}: ${phase}${diedBecause(known, status)}`);
    if (status !== undefined) io.stdout.write(`\n${partTable(status, io.clock.now())}\n${toolTable(tools)}\n`);
    printLine(io.stdout, `kubeconfig   ${directory.kubeconfig}`);
    printUrls(io, urls);
    printLine(io.stdout, `data         ${directory.path}`);
    printLine(io.stdout, `huge pages   ${describeHugePages(hugePages)}`);
    await printOthers(io, name);
  }
  return phase === "up" ? exitCodes.ok : exitCodes.failed;
}

/** Somebody who asks for the default cluster may mean another one that runs. */
async function printOthers(io: Io, name: string): Promise<void> {
  const others = (await localClusters(io.environment)).filter((one) => one.name !== name && one.phase !== "down");
  if (others.length === 0) return;
  printLine(
    io.stdout,
    `also         ${others.map((one) => `${one.name} (${one.phase})`).join(", ")}: see ramet local ls`,
  );
}

interface ClusterUrls {
  gateway?: string;
  clientApi?: string;
  /** By the part that serves them. */
  metrics: Record<string, string>;
}

function urlsOf(directory: ClusterDirectory): ClusterUrls {
  const address = (path: string): string | undefined => {
    const port = readPort(path);
    return port === undefined ? undefined : `http://127.0.0.1:${port}`;
  };
  const [gateway, clientApi] = [address(directory.gatewayPort), address(directory.clientApiPort)];
  const ports = measuredParts.map((part) => [part, readPort(directory.metricsPort(part))] as const);
  return {
    ...defined({ gateway, clientApi }),
    metrics: Object.fromEntries(
      ports.flatMap(([part, one]) => (one === undefined ? [] : [[part, `http://127.0.0.1:${one}/metrics`]])),
    ),
  };
}

function printUrls(io: Io, { gateway, clientApi, metrics }: ClusterUrls): void {
  if (gateway !== undefined) printLine(io.stdout, `gateway      ${gateway}`);
  if (clientApi !== undefined) printLine(io.stdout, `client API   ${clientApi}`);
  for (const [part, url] of Object.entries(metrics)) printLine(io.stdout, `metrics      ${url} (${part})`);
}

interface ShownTool {
  name: string;
  /** Absent for an installed program, which may have been replaced since the start. */
  version?: string;
  path: string;
}

/** The tools with which the cluster was last started. */
async function toolsOf(directory: ClusterDirectory, environment: Io["environment"]): Promise<ShownTool[]> {
  const setting = await readSetting(directory.setting).catch(() => undefined);
  return Object.entries(setting?.tools ?? {}).flatMap(([name, path]) => {
    if (path === undefined) return [];
    const version = cachedToolVersion(path, cacheDirectory(environment));
    return defined({ name, path, version });
  });
}

function toolTable(tools: readonly ShownTool[]): string {
  return table(
    ["TOOL", "VERSION", "PATH"],
    tools.map(({ name, version, path }) => [name, version ?? "", path]),
  );
}

/** If the phase is not "down" and no supervisor runs, the supervisor was killed. */
function diedBecause(known: ClusterStatus | undefined, running: ClusterStatus | undefined): string {
  if (running !== undefined || known === undefined || known.phase === "down") return "";
  return known.phase === "failed" ? ` (${known.message ?? "failed"})` : " (its supervisor was killed)";
}

function partTable({ parts }: ClusterStatus, now: Date): string {
  const rows = parts.map(({ name, state, since, process, restarts, message }) => [
    name,
    since === undefined ? state : `${state} for ${age(since, now)}`,
    process === undefined ? "" : String(process.pid),
    String(restarts),
    message ?? "",
  ]);
  return table(["PART", "STATE", "PID", "RESTARTS", "MESSAGE"], rows);
}

/** `ramet local ls`: lists the clusters of this user on this machine. */
export async function listClusters(io: Io, { output }: { output: "table" | "json" }): Promise<number> {
  const clusters = await localClusters(io.environment);
  if (output === "json") printLine(io.stdout, JSON.stringify(clusters, undefined, 2));
  else if (clusters.length === 0) printLine(io.stderr, "No local cluster. Start one with: ramet local up");
  else {
    const rows = clusters.map(({ name, phase, kubeconfig }) => [name, phase, kubeconfig]);
    io.stdout.write(table(["NAME", "PHASE", "KUBECONFIG"], rows));
  }
  return exitCodes.ok;
}
