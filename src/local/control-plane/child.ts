import { spawn } from "node:child_process";
import { accessSync, closeSync, constants, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import { delay, type Clock } from "../../base/clock.ts";

export interface ChildOptions {
  program: string;
  args: string[];
  /** The child's working folder; relative paths in `args` are read from here. */
  cwd: string;
  environment?: Record<string, string>;
  /** What it prints is appended to this file. */
  logPath: string;
  clock: Clock;
}

/** A program that was started and is watched until it ends. */
export interface Child {
  readonly pid: number;
  /** Says how it ended, for example `exit code 1` or `SIGKILL`; never rejects. */
  readonly ended: Promise<string>;
  running(): boolean;
  /** SIGTERM, and SIGKILL if it is still there after `graceMilliseconds` (5000). Resolves when it is gone. */
  stop(graceMilliseconds?: number): Promise<void>;
  /** SIGKILL. Resolves when it is gone. */
  kill(): Promise<void>;
  /** The end of its log, for an error message. */
  lastWords(): Promise<string>;
}

/** Starts a program that ends with this process, also when this process is killed (where `setpriv` is installed). */
export async function startChild(options: ChildOptions): Promise<Child> {
  const log = openSync(options.logPath, "a", 0o600);
  try {
    const [program, args] = dyingWithParent(options.program, options.args);
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "/", ...options.environment },
      stdio: ["ignore", log, log],
    });
    const ended = new Promise<string>((resolve) => {
      child.once("exit", (code, signal) => {
        resolve(signal ?? `exit code ${code ?? 0}`);
      });
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (cause) => {
        reject(new RametError("ToolMissing", `Starting ${options.program} failed: ${cause.message}`, { cause }));
      });
    });
    const running = (): boolean => child.exitCode === null && child.signalCode === null;
    return {
      pid: child.pid ?? 0,
      ended,
      running,
      stop: async (graceMilliseconds = 5000) => {
        child.kill("SIGTERM");
        const patience = new AbortController();
        const impatient = delay(options.clock, graceMilliseconds, patience.signal).then(
          () => child.kill("SIGKILL"),
          () => false,
        );
        await ended;
        patience.abort();
        await impatient;
      },
      kill: async () => {
        child.kill("SIGKILL");
        await ended;
      },
      lastWords: () => lastLines(options.logPath),
    };
  } finally {
    closeSync(log);
  }
}

/** Node cannot ask for a signal at its own death; util-linux's `setpriv` can, and then becomes the program. */
function dyingWithParent(program: string, args: string[]): [string, string[]] {
  const setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].find(isExecutable);
  return setpriv === undefined ? [program, args] : [setpriv, ["--pdeathsig", "KILL", "--", program, ...args]];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function lastLines(path: string): Promise<string> {
  const wanted = 4096;
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(wanted), 0, wanted, Math.max(0, size - wanted));
    return buffer.subarray(0, bytesRead).toString().trimEnd().split("\n").slice(-5).join("\n");
  } finally {
    await file.close();
  }
}
