import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { RametError } from "../../base/errors.ts";
import { identifyProcess, type ProcessIdentity } from "../process-identity.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { viewFlags, type MachineView } from "./pod-view.ts";
import { podDirectoryVariable } from "./orphans.ts";

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
  directory: PodDirectory;
  /** The Pod's: what a cell sees of the store is fixed when it starts. */
  namespace: string;
  view: MachineView;
  /** Whether the cell is given its setting later, by its input. */
  spare: boolean;
}

/**
 * Starts `ramet-link pod` around a cell: in a session of its own, so that it goes on when the node ends.
 * @throws RametError `ToolMissing`
 */
export async function launchPod(options: LaunchOptions): Promise<LaunchedPod> {
  const { link, cell, environment, directory, namespace, view, spare } = options;
  directory.make();
  const log = openSync(directory.cellLog, "a", 0o600);
  let child: ChildProcess;
  try {
    child = spawn(link, ["pod", ...viewFlags(view, directory, namespace), "--", ...cell], {
      detached: true,
      stdio: [spare ? "pipe" : "ignore", log, log],
      env: { ...environment, [podDirectoryVariable]: directory.path },
      // A working directory in what is hidden would be a way back to it.
      cwd: "/",
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
