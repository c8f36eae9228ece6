import { existsSync } from "node:fs";
import { join, sep } from "node:path";
import * as z from "zod";
import { engineId } from "../api/engine/engine.ts";
import { canceled, type Clock, isAborted } from "../base/clock.ts";
import { RametError, unlessCode } from "../base/errors.ts";
import { runProgram } from "../base/run-program.ts";
import { canShareBlocks } from "../cell/sandbox/saved-image.ts";
import { engineBuild } from "../cell/sandbox/engine-build.ts";
import { ClusterSetting, localCellImage } from "./cluster-setting.ts";
import { ensurePythonImage } from "./images/python-image.ts";
import { acquireTools } from "./tools/acquire-tools.ts";
import { isPinnedRunsc, toolNames } from "./tools/pinned-tools.ts";
import { cacheDirectory, packageRoot } from "./tools/tool.ts";
import { makeUserDirectory } from "./cluster-directory.ts";

type Settings = Pick<ClusterSetting, "defaultLimits" | "allowPrivateNetworks" | "verifyRestores" | "domain">;

/** What the cluster is, with the defaults of `ClusterSetting`. */
export interface PrepareOptions extends Partial<{ [Key in keyof Settings]: Settings[Key] | undefined }> {
  name: string;
  /** The parent of all clusters' directories. */
  dataDirectory: string;
  clock: Clock;
  signal: AbortSignal;
  progress: (line: string) => void;
}

/**
 * Acquires the tools and the image `python`, and verifies that sandboxes can run on this machine. Takes minutes the first
 * time.
 * @throws RametError `ToolMissing`, `ImageNotFound`, `HostUnsupported`, `Forbidden`
 */
export async function prepareCluster(options: PrepareOptions): Promise<ClusterSetting> {
  const { clock, signal, progress, dataDirectory, ...given } = options;
  await makeUserDirectory(cacheDirectory(), "XDG_CACHE_HOME");
  await makeUserDirectory(dataDirectory, "XDG_DATA_HOME");
  const tools = await acquireProbed({ clock, signal, progress });
  await ensurePythonImage({ clock, signal, progress });
  const build = await engineBuild({ runsc: tools.runsc, guest: tools["ramet-guest"] });
  const cellEngine = engineId(build);
  return ClusterSetting.parse({
    v: 1,
    program: ownProgram("ramet.js", join("src", "cli", "main.ts")),
    cell: ownProgram("cell.cjs", join("src", "cell", "main.ts")),
    tools: { ...tools, ...(await acquireGofer(build.version, options)) },
    cellImage: localCellImage(cellEngine),
    cellEngine,
    ...given,
  });
}

/** Probes the machine before the other tools are built, which can take minutes. */
async function acquireProbed(
  options: Pick<PrepareOptions, "clock" | "signal" | "progress">,
): Promise<ClusterSetting["tools"]> {
  const link = acquireTools({ ...options, names: ["ramet-link"], all: toolNames });
  const probe = await link.catch(unlessCode("ToolMissing"));
  // This reports all missing tools together.
  if (probe === undefined) return acquireTools({ ...options, names: toolNames });
  await probeHost(probe["ramet-link"], options.signal);
  const others = toolNames.filter((name) => name !== "ramet-link");
  return { ...(await acquireTools({ ...options, names: others, all: toolNames })), ...probe };
}

/**
 * Acquires the gofer if checkpoints can share blocks of the cluster's disk. Without it they are complete, and copy all files. For an
 * ordinary user gVisor removes the file of the writable layer, so that nothing can be cloned from it.
 */
async function acquireGofer(
  engineVersion: string,
  { dataDirectory, clock, signal, progress }: PrepareOptions,
): Promise<Partial<Record<"ramet-gofer", string>>> {
  if (process.getuid?.() !== 0 || !isPinnedRunsc(engineVersion)) return {};
  if (!(await canShareBlocks(dataDirectory, dataDirectory))) return {};
  return acquireTools({ clock, signal, progress, names: ["ramet-gofer"] }).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    if (error.code !== "ToolMissing") throw error;
    progress(`Checkpoints copy files instead of sharing blocks of the disk: ${error.message}`);
    return {};
  });
}

/** The command of a program: Node and the bundle or source file, whichever runs this code. */
function ownProgram(bundle: string, source: string): string[] {
  const root = packageRoot();
  const bundled = join(root, "dist", bundle);
  const isBundled = import.meta.dirname.startsWith(join(root, "dist") + sep) || isBundle(root);
  return [process.execPath, isBundled ? bundled : join(root, source)];
}

/** An installed package has no sources. */
function isBundle(root: string): boolean {
  return import.meta.dirname === join(root, "dist") || !existsSync(join(root, "src"));
}

const Finding = z.object({ ok: z.boolean(), reason: z.string().optional(), hint: z.string().optional() });
const Report = z.object({ pod: Finding, networkNamespace: Finding, veth: Finding, nftables: Finding });

const needed = [
  ["pod", "namespaces for the processes of a Pod"],
  ["networkNamespace", "network namespaces"],
  ["veth", "veth pairs"],
  ["nftables", "nftables"],
] as const;

/**
 * Runs `ramet-link probe`, which tests whether this user can run sandboxes here.
 * @throws RametError `HostUnsupported` with the missing feature, the cause, and what to do; `Canceled`
 */
async function probeHost(link: string, signal: AbortSignal): Promise<void> {
  const { stdout, stderr } = await runProgram({ program: link, args: ["probe"], timeoutMilliseconds: 60_000 });
  // Ctrl-C ends the probe too, before it prints its report.
  if (isAborted(signal)) throw canceled("Probing this machine", signal);
  const report = parse(stdout, stderr);
  for (const [name, what] of needed) {
    const { ok, reason, hint } = report[name];
    if (ok) continue;
    throw new RametError("HostUnsupported", `Probing this machine failed: it does not allow ${what}: ${reason ?? ""}`, {
      ...(hint !== undefined && hint !== "" && { hint }),
    });
  }
}

function parse(stdout: string, stderr: string): z.infer<typeof Report> {
  try {
    return Report.parse(JSON.parse(stdout));
  } catch (cause) {
    const why = stderr.trim() || stdout.trim();
    throw new RametError("HostUnsupported", `Probing this machine failed: ramet-link probe printed: ${why}`, { cause });
  }
}
