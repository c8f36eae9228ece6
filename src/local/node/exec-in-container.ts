import { open } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { within } from "../../base/within.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { guestInContainer } from "../../cell/server/container-access.ts";

export interface ExecRequest {
  /** The container's directory on the node. */
  cellDirectory: string;
  command: readonly string[];
  timeoutMilliseconds: number;
  signal: AbortSignal;
  clock: Clock;
  /** Waits until the container responds. @default it must respond */
  waits?: boolean;
}

export interface ExecResult {
  exitCode: number;
  /** Its first bytes. */
  output: string;
}

/** As many bytes of a command's output as a kubelet keeps. The rest is read and dropped. */
const maxOutputBytes = 10 * 1024;
const pollMilliseconds = 50;
/** For the guest to report a command that it has killed. */
const lateMilliseconds = 1_000;

/**
 * Runs a command in a container of a Pod. The guest kills it after its time limit.
 * @throws RametError `Timeout`; `SandboxNotReady`; `InvalidArgument` if it cannot be started
 */
export async function execInContainer(request: ExecRequest): Promise<ExecResult> {
  const { timeoutMilliseconds, signal, clock } = request;
  const milliseconds = timeoutMilliseconds + lateMilliseconds;
  // The path of the directory can be too long for a socket's.
  const directory = await open(request.cellDirectory);
  try {
    const path = `/proc/self/fd/${directory.fd}`;
    return await within({ clock, milliseconds, what: "the command", signal }, (either) => run(request, path, either));
  } finally {
    await directory.close();
  }
}

async function run(
  { command, timeoutMilliseconds, clock, waits = false }: ExecRequest,
  directory: string,
  signal: AbortSignal,
): Promise<ExecResult> {
  const guest = waits ? await untilGuest(directory, clock, signal) : await guestInContainer(directory, signal);
  const [program = "", ...args] = command;
  const chunks: Buffer[] = [];
  let missingBytes = maxOutputBytes;
  for await (const event of guest.startProcess({ command: program, args, timeoutMilliseconds }, signal)) {
    if (event.type === "end") return { exitCode: event.exitCode, output: Buffer.concat(chunks).toString().trim() };
    if (event.type !== "data" || missingBytes <= 0) continue;
    const kept = event.data.subarray(0, missingBytes);
    missingBytes -= kept.length;
    chunks.push(kept);
  }
  throw new RametError("GuestUnreachable", "the connection to the container was lost", { retryable: true });
}

async function untilGuest(directory: string, clock: Clock, signal: AbortSignal): Promise<GuestClient> {
  for (;;) {
    try {
      const guest = await guestInContainer(directory, signal);
      await guest.listProcesses();
      return guest;
    } catch (error) {
      if (!notYet.has(RametError.from(error).code)) throw error;
      await delay(clock, pollMilliseconds, signal);
    }
  }
}

const notYet: ReadonlySet<string> = new Set(["SandboxNotReady", "GuestUnreachable", "Unavailable"]);
