import { RametError } from "../../../base/errors.ts";
import type { GuestClient, StartProcess } from "../../../cell/client/guest-client.ts";

/** The limit of stdout and stderr together. */
const mostOutputBytes = 32 * 1024 * 1024;

export interface Ran {
  stdout: string;
  stderr: string;
  exitCode: number;
}

/**
 * Runs a command by the shell of a sandbox, and ends it when nobody waits for it any more.
 * @throws RametError `Timeout`; `OutOfRange` if it prints too much
 */
export async function exec(
  guest: GuestClient,
  { command, timeoutSeconds, signal }: { command: string; timeoutSeconds: number; signal: AbortSignal },
): Promise<Ran> {
  const start: StartProcess = {
    command: "/bin/sh",
    args: ["-c", command],
    timeoutMilliseconds: timeoutSeconds * 1000,
  };
  const output: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  let bytes = 0;
  let pid: number | undefined;
  try {
    for await (const event of guest.startProcess(start, signal)) {
      if (event.type === "start") pid = event.pid;
      else if (event.type === "end") {
        return { stdout: textOf(output.stdout), stderr: textOf(output.stderr), exitCode: event.exitCode };
      } else {
        bytes += event.data.length;
        if (bytes > mostOutputBytes)
          throw new RametError("OutOfRange", `The command prints more than ${mostOutputBytes} bytes`, {
            hint: "Redirect its output to a file",
          });
        output[event.stream === "stderr" ? "stderr" : "stdout"].push(event.data);
      }
    }
  } catch (error) {
    const known = RametError.from(error);
    if (pid !== undefined && known.code !== "Timeout") await guest.signal({ pid }, "SIGKILL").catch(() => undefined);
    if (known.code !== "Timeout") throw known;
    throw new RametError("Timeout", `The command was killed after ${timeoutSeconds} s`, { cause: error });
  }
  throw new RametError("GuestUnreachable", "The connection ended before the command", { retryable: true });
}

function textOf(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString("utf8");
}
