import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import type { FairTurns } from "../../base/fair-turns.ts";
import type { Downloader } from "./download.ts";
import { goBuild, goDownload } from "./go-build.ts";
import type { ProgressLine } from "./progress.ts";
import type { Tool } from "./tool.ts";

export interface MakeOptions {
  /** Path of the `go` program, if it is installed. */
  findGo: () => Promise<string | undefined>;
  downloader: Downloader;
  /** Environment variables for `go`. */
  goEnvironment: Record<string, string>;
  /** Limits the number of concurrent builds. */
  builds: FairTurns;
  line: ProgressLine;
  /** Whether builds give way to other programs of the machine. @default false */
  lowPriority?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Downloads a tool's official release, or builds it, into `<parent>/<version>`. Uses a temporary directory that is renamed
 * when it is complete. The caller holds the tool's lock. Returns "downloaded" or "built".
 */
export async function makeTool(tool: Tool, parent: string, options: MakeOptions): Promise<string> {
  const prefix = `${tool.version}.making-`;
  await sweep(parent, prefix);
  const failures: string[] = [];
  for (const way of [download, build]) {
    const directory = await mkdtemp(join(parent, prefix));
    try {
      const inner = join(directory, tool.version);
      await mkdir(inner, { mode: 0o755 });
      const how = await way(tool, inner, options);
      if (how === undefined) continue;
      await rename(inner, join(parent, tool.version));
      return how;
    } catch (error) {
      options.signal?.throwIfAborted();
      const { message } = RametError.from(error);
      options.line.note(message);
      failures.push(message);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
  throw new RametError("ToolMissing", failures.join("; "));
}

/** Removes directories of interrupted runs. The lock is held, so they are not in use. */
async function sweep(parent: string, prefix: string): Promise<void> {
  for (const entry of await readdir(parent)) {
    if (entry.startsWith(prefix)) await rm(join(parent, entry), { recursive: true, force: true });
  }
}

async function download(tool: Tool, directory: string, options: MakeOptions): Promise<string | undefined> {
  if (tool.release === undefined) return undefined;
  const { line, signal } = options;
  line.doing("downloading the official release");
  await options.downloader.fetchInto(directory, tool.name, tool.release, {
    onBytes: (bytes, total) => {
      line.detail(`${megabytes(bytes)}${total === undefined ? "" : ` of ${megabytes(total)}`} MB`);
    },
    signal,
  });
  return "downloaded";
}

async function build(tool: Tool, directory: string, options: MakeOptions): Promise<string> {
  const { line, signal = new AbortController().signal } = options;
  const go = await options.findGo();
  if (go === undefined) throw new RametError("ToolMissing", "cannot build it: Go is not installed");
  const { goEnvironment, lowPriority } = options;
  // A canceled build leaves its files.
  const how = { environment: { ...goEnvironment, GOTMPDIR: directory }, lowPriority, signal };
  line.doing("downloading the modules of its sources");
  await goDownload(go, tool.build, how);
  const work = async (): Promise<void> => {
    line.doing(`building with Go, once (about ${tool.build.coldSeconds} s on two cores if nothing is cached)`);
    await goBuild(go, tool.build, join(directory, tool.name), how);
  };
  await options.builds.run("", work, signal, () => {
    line.doing("waiting for other builds");
  });
  return "built";
}

function megabytes(bytes: number): string {
  return (bytes / 1_000_000).toFixed(0);
}
