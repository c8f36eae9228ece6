import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, realpathSync } from "node:fs";
import { RametError } from "../../api/errors.ts";
import { identifyProcess, type ProcessIdentity } from "../process-identity.ts";
import { PodFolder } from "./pod-folder.ts";
import { podFolderVariable } from "./strays.ts";

/** The outer process of a Pod that has just been started. */
export interface LaunchedPod {
  child: ChildProcess;
  process: ProcessIdentity;
}

export interface LaunchOptions {
  /** `ramet-link`. */
  link: string;
  /** The cell's program and its arguments. */
  cell: readonly string[];
  environment: Record<string, string>;
  folder: PodFolder;
  /** Whether the cell is given its setting later, by its input. */
  spare: boolean;
}

/** The Pod's folder as its cell sees it. Paths of Unix sockets end at 107 bytes, and the folder itself may lie deep. */
export const folderInside = new PodFolder("/run/ramet", ".");

/**
 * Starts `ramet-link pod` around a cell: in a session of its own, so that it goes on when the node ends.
 * @throws RametError `ToolMissing`
 */
export async function launchPod({ link, cell, environment, folder, spare }: LaunchOptions): Promise<LaunchedPod> {
  folder.make();
  const log = openSync(folder.cellLog, "a", 0o600);
  let child: ChildProcess;
  try {
    child = spawn(link, ["pod", ...viewFlags(folder), "--", ...cell], {
      detached: true,
      stdio: [spare ? "pipe" : "ignore", log, log],
      env: { ...environment, [podFolderVariable]: folder.path },
      cwd: folder.path,
    });
  } finally {
    closeSync(log);
  }
  const failure = new Promise<Error>((resolve) => child.once("error", resolve));
  const process = child.pid === undefined ? undefined : identifyProcess(child.pid);
  if (process === undefined) {
    const cause = child.pid === undefined ? await failure : undefined;
    throw new RametError("ToolMissing", `Starting ${link} failed: ${cause?.message ?? "it ended at once"}`, { cause });
  }
  child.unref();
  return { child, process };
}

/** The machine's own `/run` is not shown, so that sockets which gVisor leaves there go with the Pod. */
function viewFlags(folder: PodFolder): string[] {
  return ["--hide", "/run", "--bind", `${folder.path}:${folderInside.path}`, ...resolverFlags()];
}

/** Where the machine's resolv.conf is a link into `/run`, as systemd-resolved has it, its target is shown still. */
function resolverFlags(): string[] {
  try {
    const path = realpathSync("/etc/resolv.conf");
    return path.startsWith("/run/") ? ["--bind", `${path}:${path}:ro`] : [];
  } catch {
    return [];
  }
}
