import type { HeldBytes } from "../../base/byte-budget.ts";
import { RametError } from "../../base/errors.ts";
import type { GuestClient, StartProcess } from "../../cell/client/guest-client.ts";

export interface RunCommand {
  start: StartProcess;
  /** The limit of all output. */
  mostBytes: number;
  /** Counts the output. */
  held: HeldBytes;
  signal: AbortSignal;
}

type Stream = "stdout" | "stderr" | "pty";

/**
 * Runs a command in a sandbox, and ends it when nobody waits for it any more.
 * @param take gets the output
 * @throws RametError `Timeout`; `OutOfRange` if it prints too much, alone or with all other commands
 */
export async function runCommand(
  guest: GuestClient,
  { start, mostBytes, held, signal }: RunCommand,
  take: (stream: Stream, data: Buffer) => void,
): Promise<{ exitCode: number }> {
  let pid: number | undefined;
  let bytes = 0;
  try {
    for await (const event of guest.startProcess(start, signal)) {
      if (event.type === "start") pid = event.pid;
      else if (event.type === "end") return { exitCode: event.exitCode };
      else {
        bytes += event.data.length;
        if (bytes > mostBytes)
          throw new RametError("OutOfRange", `The command prints more than ${mostBytes} bytes`, {
            hint: "Redirect its output to a file",
          });
        holdOutput(held, event.data.length);
        take(event.stream, event.data);
      }
    }
  } catch (error) {
    const known = RametError.from(error);
    if (pid !== undefined && known.code !== "Timeout") await guest.signal({ pid }, "SIGKILL").catch(() => undefined);
    if (known.code !== "Timeout") throw known;
    const limit = (start.timeoutMilliseconds ?? 0) / 1000;
    throw new RametError("Timeout", `The command was killed after ${limit} s`, { cause: error });
  }
  throw new RametError("GuestUnreachable", "The connection ended before the command", { retryable: true });
}

/** The command has run: a client that repeats the request would run it twice. */
export function holdOutput(held: HeldBytes, bytes: number): void {
  try {
    held.add(bytes);
  } catch (cause) {
    const { message } = RametError.from(cause);
    throw new RametError("OutOfRange", `The command was ended, because its output cannot be collected: ${message}`, {
      hint: "Redirect its output to a file, or run fewer commands at the same time",
      cause,
    });
  }
}
