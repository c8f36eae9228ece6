import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { type Clock, canceled, delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { type ProcessIdentity, identifyProcess, isProcessRunning, untilEnded } from "../base/process-identity.ts";
import { type ClusterDirectory, makeUserDirectory } from "./cluster-directory.ts";
import { type ClusterSetting, writeSetting } from "./cluster-setting.ts";
import { type ClusterStatus, isSupervised, readStatus } from "./cluster-status.ts";
import { killOrphans, stopSupervisor } from "./down.ts";
import { withLock } from "./tools/lock.ts";

export interface UpOptions {
  directory: ClusterDirectory;
  setting: ClusterSetting;
  clock: Clock;
  signal: AbortSignal;
  /** The processes of the cluster inherit the directories, PATH and HOME. @default this process's */
  environment?: NodeJS.ProcessEnv;
  /** Receives a line for each part that is running. */
  progress?: (line: string) => void;
}

export interface UpResult {
  status: ClusterStatus;
  /** Whether it was running before. */
  already: boolean;
}

const pollMilliseconds = 25;

/**
 * Starts a cluster unless it is running. Its supervisor keeps running when the caller ends. Concurrent callers start one
 * cluster.
 * @throws RametError `Unavailable` with the reason if the start fails; all processes are stopped then. `Forbidden`
 */
export async function startCluster(options: UpOptions): Promise<UpResult> {
  const { directory, setting, clock, signal } = options;
  await makeUserDirectory(directory.path, "XDG_DATA_HOME");
  return withLock(directory.lock, { clock, signal }, async () => {
    const known = readStatus(directory.status);
    if (isSupervised(known) && known.phase === "up") return { status: known, already: true };
    if (isSupervised(known) && known.phase === "starting") {
      return { status: await untilUp(options, known.supervisor), already: true };
    }
    // It is stopping.
    if (isSupervised(known)) await untilEnded(known.supervisor, clock, signal);
    await killOrphans(directory, { pods: false, clock });
    await writeSetting(directory.setting, setting);
    const supervisor = spawnSupervisor(directory, setting, options.environment ?? process.env);
    try {
      return { status: await untilUp(options, supervisor), already: false };
    } catch (error) {
      options.progress?.("Stopping what was started");
      // The next start must not meet it while it ends.
      await stopSupervisor(supervisor, clock);
      throw error;
    }
  });
}

function spawnSupervisor(
  directory: ClusterDirectory,
  { program }: ClusterSetting,
  env: NodeJS.ProcessEnv,
): ProcessIdentity {
  const log = openSync(directory.log("supervisor"), "a", 0o600);
  const [node = process.execPath, ...before] = program;
  try {
    const child = spawn(node, [...before, "local", "supervise", "--name", directory.name], {
      detached: true,
      stdio: ["ignore", log, log],
      cwd: directory.path,
      env: { NODE_COMPILE_CACHE: join(directory.path, "compile-cache"), ...env },
    });
    child.on("error", () => undefined);
    child.unref();
    const supervisor = child.pid === undefined ? undefined : identifyProcess(child.pid);
    if (supervisor === undefined) throw new RametError("ToolMissing", `Starting ${node} failed`);
    return supervisor;
  } finally {
    closeSync(log);
  }
}

async function untilUp(options: UpOptions, supervisor: ProcessIdentity): Promise<ClusterStatus> {
  const { directory, clock, signal } = options;
  const report = partReporter(options.progress);
  for (;;) {
    if (signal.aborted) throw canceled("Starting the local cluster", signal);
    // Checked before the status is read: a supervisor that has ended has written its last status.
    const running = isProcessRunning(supervisor);
    const status = readStatus(directory.status);
    if (status?.supervisor.startedAt === supervisor.startedAt && status.supervisor.pid === supervisor.pid) {
      if (status.phase === "up") return status;
      if (status.phase === "failed") throw failed(directory, status.message ?? "unknown reason");
      report(status);
    }
    if (!running) throw failed(directory, "its supervisor ended");
    await delay(clock, pollMilliseconds, signal);
  }
}

/** Reports each running part once. */
function partReporter(progress: (line: string) => void = () => undefined): (status: ClusterStatus) => void {
  const reported = new Set<string>();
  return ({ parts }) => {
    for (const { name, state } of parts) {
      if (state !== "running" || reported.has(name)) continue;
      reported.add(name);
      progress(`${name} is running`);
    }
  };
}

function failed(directory: ClusterDirectory, why: string): RametError {
  return new RametError("Unavailable", `Starting the local cluster ${directory.name} failed: ${why}`, {
    hint: `See the logs of its parts in ${directory.path}`,
  });
}
