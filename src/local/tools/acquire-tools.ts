import { readdir, readFile, readlink, rename, rm, stat, utimes } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { canceled, type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { FairTurns } from "../../base/fair-turns.ts";
import { makeDownloader } from "./download.ts";
import { findInstalled, isExecutable } from "./find-installed.ts";
import { findGo } from "./go-build.ts";
import { withLock } from "./lock.ts";
import { type MakeOptions, makeTool } from "./make-tool.ts";
import { pinnedTool, type ToolName } from "./pinned-tools.ts";
import { progressLine } from "./progress.ts";
import { cacheDirectory, type Tool } from "./tool.ts";

export interface AcquireOptions<Name extends string> {
  names: readonly Name[];
  /** The tools of which these are a part, for the share in each line: `2 of 9`. @default these */
  all?: readonly string[];
  /** Receives a line for each step of each tool. */
  progress?: (line: string) => void;
  /** Whether builds give way to other programs of the machine. @default false */
  lowPriority?: boolean;
  signal?: AbortSignal | undefined;
  /** Ramet's cache directory. @default `ramet` in the user's cache directory */
  cacheDir?: string;
  /** Read for `PATH`, `KUBEBUILDER_ASSETS` and `XDG_CACHE_HOME`. @default this process's */
  environment?: NodeJS.ProcessEnv;
  /** Finds the `go` program. @default searches `PATH` and Go's default installation directory */
  findGo?: MakeOptions["findGo"];
  clock?: Clock;
}

/** One build at a time, which uses all cores. Builds at the same time would each compile the packages that they share. */
const builds = new FairTurns(1);

/**
 * Makes programs available on this machine and returns their paths. Searches `PATH`, `KUBEBUILDER_ASSETS` and the cache;
 * otherwise downloads the official release, or builds the program with Go.
 *
 * @throws RametError `ToolMissing`, one error for all missing tools; `Canceled`
 */
export function acquireTools<Name extends ToolName>(options: AcquireOptions<Name>): Promise<Record<Name, string>> {
  return acquirePinned(pinnedTool, options);
}

/** As `acquireTools`, with tools described by `pinned`. */
export async function acquirePinned<Name extends string>(
  pinned: (name: Name) => Promise<Tool>,
  options: AcquireOptions<Name>,
): Promise<Record<Name, string>> {
  const { names, signal, all = names } = options;
  const environment = options.environment ?? process.env;
  const cache = options.cacheDir ?? cacheDirectory(environment);
  const context: Context = {
    environment,
    directory: join(cache, "tools"),
    goEnvironment: goEnvironment(cache, environment),
    downloader: makeDownloader(environment),
    findGo: options.findGo ?? (() => findGo(environment)),
    builds,
    clock: options.clock ?? systemClock,
    write: options.progress ?? (() => undefined),
    lowPriority: options.lowPriority,
    signal,
  };
  const failures: string[] = [];
  const acquired = await Promise.all(
    names.map(async (name) => {
      try {
        const share = `${all.indexOf(name) + 1} of ${all.length}`;
        return [name, await acquire(await pinned(name), share, context)] as const;
      } catch (error) {
        failures.push(`${name}: ${RametError.from(error).message}`);
        return [name, ""] as const;
      }
    }),
  );
  await context.downloader.close();
  if (signal?.aborted === true) throw canceled("Acquiring the tools", signal);
  if (failures.length > 0) throw missingTools(failures);
  return Object.fromEntries(acquired) as Record<Name, string>;
}

interface Context extends Omit<MakeOptions, "line"> {
  environment: NodeJS.ProcessEnv;
  directory: string;
  clock: Clock;
  write: (line: string) => void;
}

/** @param share the place of the tool among all that are acquired */
async function acquire(tool: Tool, share: string, context: Context): Promise<string> {
  const { environment, clock, signal } = context;
  const line = progressLine(`${tool.name} ${tool.version} (tool ${share})`, context.write, clock);
  const parent = join(context.directory, tool.name);
  const path = join(parent, tool.version, tool.name);
  try {
    const installed = await findInstalled(tool, environment, line.note, signal);
    if (installed !== undefined) {
      line.done(`found in ${installed.where}: ${installed.path}`);
      return installed.path;
    }
    if (await isExecutable(path)) {
      await keepFromPruning(path, clock);
      line.done("found in the cache");
      return path;
    }
    const onWait = (pid: number): void => {
      line.doing(`waiting for process ${pid}, which is acquiring it`);
    };
    await withLock(join(parent, `${tool.version}.lock`), { clock, onWait, signal }, async () => {
      // Another process may have made it meanwhile.
      if (await isExecutable(path)) {
        line.done("found in the cache");
        return;
      }
      line.done(await makeTool(tool, parent, { ...context, line }));
      const pruned = await pruneBuilds({ parent, current: tool.version, now: clock.now() });
      if (pruned.length > 0) line.note(`removed from the cache: ${pruned.join(", ")}`);
    });
    return path;
  } finally {
    line.stop();
  }
}

/** Updates the modification time, which `pruneBuilds` reads. A read-only cache is never pruned, so errors are ignored. */
async function keepFromPruning(path: string, clock: Clock): Promise<void> {
  const now = clock.now();
  await utimes(dirname(path), now, now).catch(() => undefined);
}

function missingTools(failures: string[]): RametError {
  return new RametError("ToolMissing", `Acquiring tools failed: ${failures.join(" | ")}`, {
    hint:
      "Do one of these: put the programs on your PATH; set KUBEBUILDER_ASSETS to a directory that has etcd and " +
      "kube-apiserver; install Go 1.26 or newer; or connect this machine to the internet (HTTPS_PROXY is supported)",
  });
}

/**
 * Environment variables that keep all files of `go` in Ramet's cache: modules, build results, telemetry and toolchains.
 * Directories that the user has set in the environment are kept, as the user may share a cache. The user's settings
 * (`go env -w`, such as a proxy) stay in effect.
 */
export function goEnvironment(cacheDirectory: string, environment: NodeJS.ProcessEnv): Record<string, string> {
  const directory = join(cacheDirectory, "go");
  const userConfig = given(environment, "XDG_CONFIG_HOME") ?? join(given(environment, "HOME") ?? homedir(), ".config");
  const goPath = given(environment, "GOPATH") ?? directory;
  return {
    CGO_ENABLED: "0",
    GOWORK: "off",
    // Without -modcacherw only `go clean` can remove a module cache.
    GOFLAGS: "-mod=readonly -buildvcs=false -modcacherw",
    GOPATH: goPath,
    GOMODCACHE: given(environment, "GOMODCACHE") ?? join(goPath.split(":")[0] ?? directory, "pkg", "mod"),
    GOCACHE: given(environment, "GOCACHE") ?? join(directory, "build"),
    GOENV: given(environment, "GOENV") ?? join(userConfig, "go", "env"),
    // Go keeps telemetry counters here even with telemetry off. No other variable moves them.
    XDG_CONFIG_HOME: join(directory, "config"),
  };
}

function given(environment: NodeJS.ProcessEnv, name: string): string | undefined {
  const value = environment[name];
  return value === "" ? undefined : value;
}

interface PruneOptions {
  /** The directory of one tool in the cache, with a directory for each version. */
  parent: string;
  /** The version that was just built or downloaded. */
  current: string;
  now: Date;
  /** Whether a process uses this directory. @default searches this machine's processes */
  isInUse?: (directory: string) => Promise<boolean>;
}

/** A tool is kept this long after it was last requested, because it may not be running yet. */
const keptMilliseconds = 24 * 60 * 60 * 1000;

/**
 * Removes other versions of a tool that were not requested for a day and are not in use. A request updates the directory's
 * modification time. Returns the removed versions.
 */
export async function pruneBuilds(options: PruneOptions): Promise<string[]> {
  const { parent, current, now, isInUse = isUsedByProcess } = options;
  const before = now.getTime() - keptMilliseconds;
  const removed: string[] = [];
  for (const entry of await readdir(parent, { withFileTypes: true })) {
    const { name } = entry;
    const directory = join(parent, name);
    if (!entry.isDirectory() || name === current || name.includes(".making-")) continue;
    if (!(await isOlder(directory, before)) || (await isInUse(directory))) continue;
    // If this is interrupted, the next build of the current version removes the directory.
    const moved = join(parent, `${current}.making-old-${name}`);
    await rename(directory, moved);
    if (await isOlder(moved, before)) {
      await rm(moved, { recursive: true, force: true });
      removed.push(name);
    } else await rename(moved, directory); // requested meanwhile
  }
  return removed;
}

async function isOlder(directory: string, before: number): Promise<boolean> {
  return (await stat(directory)).mtimeMs < before;
}

/** Searches executables, command lines and environments of processes. Cells get the paths in their environment. */
async function isUsedByProcess(directory: string): Promise<boolean> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const texts = await Promise.all([
      readlink(`/proc/${pid}/exe`).catch(() => ""),
      ...["cmdline", "environ"].map((name) => readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "")),
    ]);
    if (texts.some((text) => text.includes(`${directory}/`))) return true;
  }
  return false;
}
