import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { type Clock, systemClock } from "./clock.ts";
import { RametError, textOfError } from "./errors.ts";

export interface RunProgramOptions {
  program: string;
  args: readonly string[];
  /** The name of the program in errors. @default the program */
  what?: string;
  stdio?: StdioOptions;
  /** Added to the environment of this process. */
  environment?: Readonly<Record<string, string>>;
  /** After this time the program is killed and the call fails. */
  timeoutMilliseconds: number;
  clock?: Clock;
}

export interface ProgramResult {
  child: ChildProcess;
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program until it exits. @throws RametError as `StartedProgram.ended` */
export async function runProgram({ timeoutMilliseconds, ...options }: RunProgramOptions): Promise<ProgramResult> {
  return startProgram(options).ended(timeoutMilliseconds);
}

export interface StartedProgram {
  child: ChildProcess;
  /**
   * Waits until the process exits. Its pipes may stay open longer: `runsc run` passes them to the sandbox. Call it once.
   * @throws RametError `ToolMissing` if it cannot be started, `Timeout` if it does not exit in time
   */
  ended(timeoutMilliseconds: number): Promise<ProgramResult>;
}

/** Starts a program without waiting for its exit. */
export function startProgram({
  program,
  args,
  what = program,
  stdio = ["ignore", "pipe", "pipe"],
  environment = {},
  clock = systemClock,
}: Omit<RunProgramOptions, "timeoutMilliseconds">): StartedProgram {
  const child = spawn(program, args, { stdio, env: { ...process.env, ...environment } });
  const stdout = collect(child.stdout);
  const stderr = collect(child.stderr);
  const exit = once(child, "exit") as Promise<[number | null, string | null]>;
  exit.catch(() => undefined);
  return {
    child,
    ended: async (timeoutMilliseconds) => {
      const cancelKill = clock.schedule(timeoutMilliseconds, () => {
        child.kill("SIGKILL");
      });
      try {
        const [code, signal] = await exit;
        if (signal === "SIGKILL" && code === null) {
          throw new RametError(
            "Timeout",
            `${what} failed: it did not exit within ${timeoutMilliseconds} ms, or was killed`,
          );
        }
        // The last output of the process may still be in the pipe.
        await new Promise((resolve) => setImmediate(resolve));
        return { child, code: code ?? 1, stdout: stdout.end(), stderr: stderr.end() };
      } catch (error) {
        if (error instanceof RametError) throw error;
        throw new RametError("ToolMissing", `${what} failed: ${program} cannot be started (${textOfError(error)})`, {
          cause: error,
          hint: "Run `ramet local setup` on one machine; on a cluster, use a cell image that contains it",
        });
      } finally {
        cancelKill();
      }
    },
  };
}

/** The part of a program's output that is collected. A sandbox may print without end before `runsc` exits. */
const maxOutputLength = 16 * 1024 * 1024;

/** Collects a stream's text until `end()` is called. The stream stays open for the next listener. */
function collect(stream: NodeJS.ReadableStream | null): { end(): string } {
  let text = "";
  const take = (chunk: Buffer): void => {
    if (text.length < maxOutputLength) text += chunk.toString();
  };
  stream?.on("data", take);
  return {
    end: () => {
      stream?.off("data", take);
      return text;
    },
  };
}
