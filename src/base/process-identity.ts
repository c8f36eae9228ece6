import { readFileSync } from "node:fs";
import * as z from "zod";
import { type Clock, delay } from "./clock.ts";
import { hasSystemCode, resultOr } from "./errors.ts";

/**
 * Identifies one process even if its process id is reused: process id, start time (field 22 of `/proc/<pid>/stat`,
 * proc_pid_stat(5)) and boot.
 */
export const ProcessIdentity = z.object({ pid: z.number().int().positive(), startedAt: z.string(), boot: z.string() });
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;

/** The identity of a running process. Undefined if no process has that id. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const startedAt = startTime(pid);
  return startedAt === undefined ? undefined : { pid, startedAt, boot: bootId() };
}

/** Whether that process is still running. A zombie is not. */
export function isProcessRunning(identity: ProcessIdentity): boolean {
  return identity.boot === bootId() && identity.startedAt === startTime(identity.pid);
}

/** Sends a signal if the process is running. Returns whether it was sent. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  return isProcessRunning(identity) && kill(identity.pid, signal);
}

/** Sends a signal to a process or, negative, to a group. Returns whether there is one. */
export function kill(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    if (hasSystemCode(error, "ESRCH")) return false;
    throw error;
  }
}

/** Waits until a process has ended. */
export async function untilEnded(identity: ProcessIdentity, clock: Clock, signal?: AbortSignal): Promise<void> {
  while (isProcessRunning(identity)) await delay(clock, pollMilliseconds, signal);
}

const pollMilliseconds = 10;

function startTime(pid: number): string | undefined {
  const text = resultOr(() => readFileSync(`/proc/${pid}/stat`, "utf8"), "");
  // The second field is the program's name in parentheses and may contain spaces.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
