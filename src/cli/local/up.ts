import { existsSync } from "node:fs";
import { quantityToBytes, quantityToMillicores } from "../../base/quantity.ts";
import { clusterDirectory, dataDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { isSupervised, readStatus } from "../../local/cluster-status.ts";
import { stopCluster } from "../../local/down.ts";
import { describeHugePages, readHugePages, tuneHugePages } from "../../local/huge-pages.ts";
import { type LogPart, sendPartLog } from "../../local/log-files.ts";
import { prepareCluster } from "../../local/prepare-cluster.ts";
import { startCluster } from "../../local/up.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, lineWriter, printLine } from "../io.ts";
import { shellWord } from "../output/render.ts";

export interface UpOptions {
  name?: string;
  tune?: boolean;
  defaultMemory?: string;
  defaultCpu?: string;
  allowPrivateNetworks?: boolean;
  verifyRestores?: boolean;
  domain?: string;
}

/** `ramet local up`: prints progress to stderr, and the `export` line for kubectl to stdout. */
export async function localUp(io: Io, options: UpOptions): Promise<void> {
  const { name = defaultClusterName, tune = false, defaultMemory, defaultCpu } = options;
  const { allowPrivateNetworks = false, verifyRestores = false } = options;
  const defaultLimits = {
    ...(defaultMemory !== undefined && { memoryBytes: orNone(defaultMemory, "--default-memory", quantityToBytes) }),
    ...(defaultCpu !== undefined && { cpuMillis: orNone(defaultCpu, "--default-cpu", quantityToMillicores) }),
  };
  const directory = clusterDirectory(name, io.environment);
  const { clock, signal } = io;
  const progress = lineWriter(io.stderr);
  if (tune) await tuneHugePages();
  const startedAt = clock.monotonicMilliseconds();
  const known = readStatus(directory.status);
  if (isSupervised(known) && known.phase === "up") {
    progress(`The local cluster ${name} is up, since ${known.startedAt}.`);
    warnOfUnused(options, progress);
  } else {
    const settings = { defaultLimits, allowPrivateNetworks, verifyRestores, domain: options.domain };
    const setting = await prepareCluster({
      name,
      dataDirectory: dataDirectory(io.environment),
      clock,
      signal,
      progress,
      ...settings,
    });
    const { already } = await startCluster({ directory, setting, clock, signal, progress });
    if (already) warnOfUnused(options, progress);
    const seconds = ((clock.monotonicMilliseconds() - startedAt) / 1000).toFixed(1);
    progress(already ? `The local cluster ${name} is up.` : `The local cluster ${name} is up, after ${seconds} s.`);
  }
  progress(`Huge pages: ${describeHugePages(await readHugePages())}`);
  progress("To use it with kubectl:");
  printLine(io.stdout, `export KUBECONFIG=${shellWord(directory.kubeconfig)}`);
  progress(`For the SDKs of E2B and AgentTier, set the variables of: ramet local env${nameFlag(name)}`);
}

/** The processes of a running cluster keep the settings with which they were started. */
function warnOfUnused({ name = defaultClusterName, ...options }: UpOptions, progress: (line: string) => void): void {
  const { tune: _tune, ...settings } = options;
  const given = Object.keys(settings).map(
    (option) => `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
  );
  if (given.length === 0) return;
  const verb = given.length === 1 ? "has" : "have";
  progress(
    `warning: ${given.join(", ")} ${verb} no effect on a running cluster; stop it first: ramet local down${nameFlag(name)}`,
  );
}

function nameFlag(name: string): string {
  return name === defaultClusterName ? "" : ` --name ${name}`;
}

function orNone(text: string, flag: string, convert: (quantity: string, field: string) => number): number {
  return text === "none" ? 0 : convert(text, flag);
}

export interface DownOptions {
  name?: string;
  purge?: boolean;
}

/** `ramet local down`. Succeeds if the cluster is not running. */
export async function localDown(io: Io, { name = defaultClusterName, purge = false }: DownOptions): Promise<void> {
  const directory = clusterDirectory(name, io.environment);
  if (!existsSync(directory.path)) {
    printLine(io.stderr, `There is no local cluster ${name}. List the existing ones with: ramet local ls`);
    return;
  }
  const { wasUp } = await stopCluster({ directory, clock: io.clock, signal: io.signal, purge });
  const kept = purge ? "Its data was removed." : `Its data is in ${directory.path}.`;
  printLine(io.stderr, `The local cluster ${name} ${wasUp ? "is down" : "was not running"}. ${kept}`);
}

/** `ramet local setup`: the slow first part of `up`. */
export async function localSetup(io: Io): Promise<void> {
  const progress = lineWriter(io.stderr);
  await prepareCluster({
    name: defaultClusterName,
    dataDirectory: dataDirectory(io.environment),
    clock: io.clock,
    signal: io.signal,
    progress,
  });
  printLine(io.stderr, "Everything is there. Start a cluster with: ramet local up");
}

export interface LogsOptions {
  part: LogPart;
  name?: string;
  follow?: boolean;
}

export async function localLogs(
  io: Io,
  { part, name = defaultClusterName, follow = false }: LogsOptions,
): Promise<number> {
  await sendPartLog(clusterDirectory(name, io.environment), io.stdout, { part, follow, signal: io.signal });
  return follow ? exitCodes.interrupted : exitCodes.ok;
}
