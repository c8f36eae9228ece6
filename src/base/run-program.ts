import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { RametError } from "./errors.ts";

export interface RunProgramOptions {
  program: string;
  args: readonly string[];
  /** What it is run for, as an error names it. @default the program */
  what?: string;
  stdio?: StdioOptions;
  /** The program is killed and the call fails after this long. It is never tied to a request's life. */
  timeoutMilliseconds: number;
}

export interface ProgramResult {
  child: ChildProcess;
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end. @throws RametError as `StartedProgram.ended` */
export async function runProgram({ timeoutMilliseconds, ...options }: RunProgramOptions): Promise<ProgramResult> {
  return startProgram(options).ended(timeoutMilliseconds);
}

export interface StartedProgram {
  child: ChildProcess;
  /**
   * Waits for its end. Its pipes may be inherited by others and outlive it (`runsc run` hands them to the sandbox), so the
   * end is the process's, not the pipes'. To be called once.
   * @throws RametError `ToolMissing` when it could not be started, `Timeout` when it does not end
   */
  ended(timeoutMilliseconds: number): Promise<ProgramResult>;
}

/** Starts a program, which may be waited for later. */
export function startProgram({
  program,
  args,
  what = program,
  stdio = ["ignore", "pipe", "pipe"],
}: Omit<RunProgramOptions, "timeoutMilliseconds">): StartedProgram {
  const child = spawn(program, args, { stdio });
  const stdout = collect(child.stdout);
  const stderr = collect(child.stderr);
  const exit = once(child, "exit") as Promise<[number | null, string | null]>;
  exit.catch(() => undefined);
  return {
    child,
    ended: async (timeoutMilliseconds) => {
      const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMilliseconds);
      try {
        const [code, signal] = await exit;
        if (signal === "SIGKILL" && code === null) {
          throw new RametError("Timeout", `${what} failed: it did not end in ${timeoutMilliseconds} ms, or was killed`);
        }
        // What the process wrote last may still be in the pipe.
        await new Promise((resolve) => setImmediate(resolve));
        return { child, code: code ?? 1, stdout: stdout.end(), stderr: stderr.end() };
      } catch (error) {
        if (error instanceof RametError) throw error;
        throw new RametError("ToolMissing", `${what} failed: ${program} cannot be started (${String(error)})`, {
          cause: error,
          hint: "Run `ramet local setup` on one machine; on a cluster, use a cell image that has it",
        });
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** Gathers a stream's text until `end()` is called; the stream then keeps flowing to whoever listens next. */
function collect(stream: NodeJS.ReadableStream | null): { end(): string } {
  let text = "";
  const take = (chunk: Buffer): void => {
    text += chunk.toString();
  };
  stream?.on("data", take);
  return {
    end: () => {
      stream?.off("data", take);
      return text;
    },
  };
}
