import { spawn, type ChildProcess } from "node:child_process";
import { text } from "node:stream/consumers";
import { RametError } from "../../base/errors.ts";
import { canceled, isAborted } from "../../base/clock.ts";
import { kill } from "../../base/process-identity.ts";

export interface RunOptions {
  cwd?: string;
  /** Added to this process's environment. */
  environment?: Record<string, string>;
  /** Kills the program and its children. */
  signal?: AbortSignal | undefined;
  /** The program's standard input. */
  input?: NodeJS.ReadableStream;
  /** Subject of the error message "... failed". @default the program's name */
  what?: string;
}

export interface RunResult {
  stdout: string;
  stderr: string;
}

/**
 * Runs a program and returns its output.
 *
 * @throws RametError `ToolMissing` if the program is missing, `Canceled`, or `Internal` with its last lines of output if its
 * exit code is not 0
 */
export async function runProgram(program: string, args: string[], options: RunOptions = {}): Promise<RunResult> {
  const { what = program, signal } = options;
  if (signal?.aborted === true) throw canceled(what, signal);
  const child = spawn(program, args, {
    // Its own process group, so that it can be killed together with its children.
    detached: true,
    stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    env: { ...process.env, ...options.environment },
    cwd: options.cwd,
  });
  const printing = Promise.all([textOf(child.stdout), textOf(child.stderr)]);
  feed(child, options.input);
  const onAbort = (): void => {
    if (child.pid !== undefined) kill(-child.pid, "SIGKILL");
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  const failure = await ending(child);
  const [stdout, stderr] = await printing;
  signal?.removeEventListener("abort", onAbort);
  if (isAborted(signal)) throw canceled(what, signal);
  if (failure instanceof Error) {
    throw new RametError("ToolMissing", `${what} failed: cannot start ${program}: ${failure.message}`, {
      cause: failure,
    });
  }
  if (failure === undefined) return { stdout, stderr };
  const lines = (stderr.trim() === "" ? stdout : stderr).trim().split("\n");
  throw new RametError("Internal", `${what} failed (${failure}): ${lines.slice(-8).join("\n")}`);
}

/** A program that cannot be started prints nothing. */
async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  return stream === null ? "" : text(stream).catch(() => "");
}

function feed(child: ChildProcess, input: NodeJS.ReadableStream | undefined): void {
  if (input === undefined || child.stdin === null) return;
  // A program that ends before it has read all input reports the error itself.
  child.stdin.on("error", () => undefined);
  input.on("error", () => child.kill("SIGKILL")).pipe(child.stdin);
}

/** Undefined on success, otherwise the exit code or signal, or the error of the start. */
function ending(child: ChildProcess): Promise<Error | string | undefined> {
  return new Promise((resolve) => {
    child.once("error", resolve);
    child.once("close", (code, signal) => {
      resolve(code === 0 ? undefined : (signal ?? `exit code ${code ?? 0}`));
    });
  });
}
