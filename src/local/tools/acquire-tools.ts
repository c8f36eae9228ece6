import { readdir, readFile, readlink, rename, rm, stat, utimes } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { canceled, type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { type Downloader, makeDownloader } from "./download.ts";
import { findInstalled, isExecutable } from "./find-installed.ts";
import { findGo } from "./go-build.ts";
import { withLock } from "./lock.ts";
import { type MakeOptions, makeTool } from "./make-tool.ts";
import { pinnedTool, type ToolName } from "./pinned-tools.ts";
import { progressLine } from "./progress.ts";
import { cacheDirectory, limiter, type Limiter, type Tool } from "./tool.ts";

export interface AcquireOptions<Name extends string> {
  names: readonly Name[];
  /** Gets a line for each step of each tool. */
  progress?: (line: string) => void;
  signal?: AbortSignal;
  /** Ramet's cache directory. @default `ramet` in the user's cache directory */
  cacheDir?: string;
  /** Read for `PATH`, `KUBEBUILDER_ASSETS` and `XDG_CACHE_HOME`. @default this process's */
  environment?: NodeJS.ProcessEnv;
  /** Where the `go` program is. @default in `PATH`, or where Go's installation instructions put it */
  findGo?: MakeOptions["findGo"];
  clock?: Clock;
}

/**
 * Makes sure that programs are on this machine and returns their paths. Each is looked for in `PATH`,
 * `KUBEBUILDER_ASSETS` and the cache; then its official release is downloaded; then it is built with Go.
 *
 * @throws RametError `ToolMissing`, one for all that could not be got, saying what can be done; `Canceled`.
 */
export function acquireTools<Name extends ToolName>(options: AcquireOptions<Name>): Promise<Record<Name, string>> {
  return acquirePinned(pinnedTool, options);
}

/** As `acquireTools`, for programs of which `pinned` says what they are. */
export async function acquirePinned<Name extends string>(
  pinned: (name: Name) => Promise<Tool>,
  options: AcquireOptions<Name>,
): Promise<Record<Name, string>> {
  const { names, signal } = options;
  const environment = options.environment ?? process.env;
  const cache = options.cacheDir ?? cacheDirectory(environment);
  const context: Context = {
    environment,
    directory: join(cache, "tools"),
    goEnvironment: goEnvironment(cache, environment),
    downloader: makeDownloader(environment),
    findGo: options.findGo ?? (() => findGo(environment)),
    // Go uses all cores for one build; a second one fills the gaps while the first waits for modules or links.
    builds: limiter(2),
    clock: options.clock ?? systemClock,
    write: options.progress ?? (() => undefined),
    ...(signal === undefined ? {} : { signal }),
  };
  const failures: string[] = [];
  const acquired = await Promise.all(
    names.map(async (name) => {
      try {
        return [name, await acquire(await pinned(name), context)] as const;
      } catch (error) {
        failures.push(`${name}: ${RametError.from(error).message}`);
        return [name, ""] as const;
      }
    }),
  );
  await context.downloader.close();
  if (signal?.aborted === true) throw canceled("Getting the tools", signal);
  if (failures.length > 0) throw missingTools(failures);
  return Object.fromEntries(acquired) as Record<Name, string>;
}

interface Context {
  environment: NodeJS.ProcessEnv;
  directory: string;
  downloader: Downloader;
  builds: Limiter;
  findGo: MakeOptions["findGo"];
  goEnvironment: MakeOptions["goEnvironment"];
  clock: Clock;
  write: (line: string) => void;
  signal?: AbortSignal;
}

async function acquire(tool: Tool, context: Context): Promise<string> {
  const { environment, clock, signal } = context;
  const line = progressLine(`${tool.name} ${tool.version}`, context.write, clock);
  const parent = join(context.directory, tool.name);
  const path = join(parent, tool.version, tool.name);
  try {
    const installed = await findInstalled(tool, { environment, passedOver: (what) => { line.note(what); }, ...(signal && { signal }) });
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
      line.doing(`waiting for process ${pid}, which is getting it`);
    };
    await withLock(join(parent, `${tool.version}.lock`), { clock, onWait, ...(signal && { signal }) }, async () => {
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

/** See `prune-builds.ts`. A cache that cannot be written is one that nobody prunes. */
async function keepFromPruning(path: string, clock: Clock): Promise<void> {
  const now = clock.now();
  await utimes(dirname(path), now, now).catch(() => undefined);
}

function missingTools(failures: string[]): RametError {
  return new RametError("ToolMissing", `Getting what Ramet runs on failed: ${failures.join(" | ")}`, {
    hint:
      "Do one of these: put the programs on your PATH; set KUBEBUILDER_ASSETS to a directory that has etcd and " +
      "kube-apiserver; install Go 1.26 or newer; or connect this machine to the internet (HTTPS_PROXY is honoured)",
  });
}

/**
 * What `go` gets so that it keeps all its files in Ramet's cache: modules, build results, telemetry, and a newer toolchain if
 * it fetches one. A place that the user has set in the environment stays, as a shared cache is wanted then; the user's own
 * settings (`go env -w`, such as a proxy) are read from where they are.
 */
export function goEnvironment(cacheDirectory: string, environment: NodeJS.ProcessEnv): Record<string, string> {
  const directory = join(cacheDirectory, "go");
  const userConfig = given(environment, "XDG_CONFIG_HOME") ?? join(given(environment, "HOME") ?? homedir(), ".config");
  const goPath = given(environment, "GOPATH") ?? directory;
  return {
    CGO_ENABLED: "0",
    GOWORK: "off",
    // Without the last of them a module cache can be removed by nobody but `go clean`.
    GOFLAGS: "-mod=readonly -buildvcs=false -modcacherw",
    GOPATH: goPath,
    GOMODCACHE: given(environment, "GOMODCACHE") ?? join(goPath.split(":")[0] ?? directory, "pkg", "mod"),
    GOCACHE: given(environment, "GOCACHE") ?? join(directory, "build"),
    GOENV: given(environment, "GOENV") ?? join(userConfig, "go", "env"),
    // Where Go counts how it is used, even with telemetry off; there is no variable of its own for that.
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
  /** The version that was just made. */
  current: string;
  now: Date;
  /** Whether something still runs from this directory. @default a look at this machine's processes */
  isInUse?: (directory: string) => Promise<boolean>;
}

/** Somebody who has asked for a tool may take a while until it runs: what was asked for since then stays. */
const keptMilliseconds = 24 * 60 * 60 * 1000;

/**
 * Removes other versions of a tool that nobody has asked for in a day and that nothing runs from. Who asks for one sets the
 * directory's modification time. Returns the versions that went.
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
    // The next one who makes the current version clears away what a kill leaves of it.
    const doomed = join(parent, `${current}.making-old-${name}`);
    await rename(directory, doomed);
    if (await isOlder(doomed, before)) {
      await rm(doomed, { recursive: true, force: true });
      removed.push(name);
    } else await rename(doomed, directory); // asked for at this very moment
  }
  return removed;
}

async function isOlder(directory: string, before: number): Promise<boolean> {
  return (await stat(directory)).mtimeMs < before;
}

/** By what processes run, were started with, or are told in their environment, as cells are. */
async function isUsedByProcess(directory: string): Promise<boolean> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const told = await Promise.all([
      readlink(`/proc/${pid}/exe`).catch(() => ""),
      ...["cmdline", "environ"].map((name) => readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "")),
    ]);
    if (told.some((text) => text.includes(`${directory}/`))) return true;
  }
  return false;
}
