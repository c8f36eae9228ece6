import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { RametError, resultOr } from "../../base/errors.ts";
import { identifyProcess, type ProcessIdentity, signalProcess } from "../../base/process-identity.ts";
import { viewFlags, type CellView, type MachineView } from "./pod-view.ts";

/** The outer process of a Pod that was just started. */
export interface LaunchedPod {
  child: ChildProcess;
  process: ProcessIdentity;
}

export interface LaunchOptions extends CellView {
  /** `ramet-link`. */
  link: string;
  /** The cell's program and its arguments. */
  cell: readonly string[];
  environment: Record<string, string>;
  view: MachineView;
  /** Whether the cell receives its setting later, on its standard input. */
  spare: boolean;
}

/**
 * Starts `ramet-link pod` with a cell, in its own session, so that it keeps running when the node ends.
 * @throws RametError `ToolMissing`
 */
export async function launchPod(options: LaunchOptions): Promise<LaunchedPod> {
  const { link, cell, environment, directory, view, spare } = options;
  directory.make();
  const log = openSync(directory.cellLog, "a", 0o600);
  let child: ChildProcess;
  try {
    child = spawn(link, ["pod", ...viewFlags(view, options), "--", ...cell], {
      detached: true,
      stdio: [spare ? "pipe" : "ignore", log, log],
      env: { ...environment, [podDirectoryVariable]: directory.path },
      // A working directory below a hidden directory would give access to it.
      cwd: "/",
    });
  } finally {
    closeSync(log);
  }
  const failure = new Promise<Error>((resolve) => child.once("error", resolve));
  const process = child.pid === undefined ? undefined : identifyProcess(child.pid);
  if (process === undefined) {
    const cause = child.pid === undefined ? await failure : undefined;
    throw new RametError("ToolMissing", `Starting ${link} failed: ${cause?.message ?? "it ended immediately"}`, {
      cause,
    });
  }
  child.unref();
  return { child, process };
}

/** Environment variable of every process of a Pod: the Pod's directory on the machine. */
const podDirectoryVariable = "RAMET_POD_FOLDER";

/**
 * Finds the processes of Pods in this directory by their environment, including those without a record after a crash: the
 * outer process of each Pod, and its children with the same environment.
 */
export function podProcesses(pods: string): { name: string; process: ProcessIdentity }[] {
  const prefix = `${podDirectoryVariable}=${pods}/`;
  return readdirSync("/proc").flatMap((entry) => {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) return [];
    const variable = environmentOf(pid).find((text) => text.startsWith(prefix));
    const process = variable === undefined ? undefined : identifyProcess(pid);
    const name = variable?.slice(prefix.length);
    return process === undefined || name === undefined ? [] : [{ name, process }];
  });
}

/** Kills the processes of a Pod and of its further containers, whose directories are below the Pod's. */
export function killPod(pods: string, uid: string): void {
  for (const { name, process } of podProcesses(pods))
    if (name === uid || name.startsWith(`${uid}/`)) signalProcess(process, "SIGKILL");
}

function environmentOf(pid: number): string[] {
  // It has ended, or belongs to another user.
  return resultOr(() => readFileSync(`/proc/${pid}/environ`, "latin1").split("\0"), []);
}
