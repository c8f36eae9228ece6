import { spawn } from "node:child_process";
import { accessSync, closeSync, constants, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { RametError, textOfError } from "../../base/errors.ts";
import { delay, type Clock, canceled } from "../../base/clock.ts";

export interface ChildOptions {
  program: string;
  args: string[];
  /** The child's working directory. Relative paths in `args` refer to it. */
  cwd: string;
  environment?: Record<string, string>;
  /** The program's output is appended to this file. */
  logPath: string;
  clock: Clock;
}

/** A started program. */
export type Child = Awaited<ReturnType<typeof startChild>>;

/** Starts a program that ends with this process, even if this process is killed (requires `setpriv`). */
export async function startChild(options: ChildOptions) {
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
    await once(child, "spawn").catch((cause: unknown) => {
      throw new RametError("ToolMissing", `Starting ${options.program} failed: ${textOfError(cause)}`, { cause });
    });
    // Later ones are of signals that could not be sent.
    child.on("error", () => undefined);
    const running = (): boolean => child.exitCode === null && child.signalCode === null;
    return {
      pid: child.pid ?? 0,
      /** Resolves when it ends, with for example `exit code 1` or `SIGKILL`. Never rejects. */
      ended,
      running,
      /** Sends SIGTERM, and SIGKILL after the time. Resolves when the program has ended. */
      stop: async (graceMilliseconds = 5000) => {
        child.kill("SIGTERM");
        const cancelKill = options.clock.schedule(graceMilliseconds, () => {
          child.kill("SIGKILL");
        });
        await ended;
        cancelKill();
      },
      /** Sends SIGKILL. Resolves when the program has ended. */
      kill: async () => {
        child.kill("SIGKILL");
        await ended;
      },
      /** The last lines of its log, for an error message. */
      lastLogLines: () => lastLines(options.logPath),
    };
  } finally {
    closeSync(log);
  }
}

/** Node cannot set a parent-death signal; util-linux's `setpriv` can, and then executes the program. */
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
  const tailBytes = 4096;
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(tailBytes), 0, tailBytes, Math.max(0, size - tailBytes));
    return buffer.subarray(0, bytesRead).toString().trimEnd().split("\n").slice(-5).join("\n");
  } finally {
    await file.close();
  }
}

interface ReadinessOptions {
  /** The program's name in messages, such as "the API server". */
  what: string;
  ready: () => Promise<boolean>;
  /** @default a minute */
  timeoutMilliseconds?: number;
  clock: Clock;
  signal?: AbortSignal | undefined;
}

/**
 * Polls until the child is ready. If the child ends early, the time limit passes or `signal` is aborted, kills the child and
 * throws an error with the last lines of its log.
 */
export async function waitUntilReady(child: Child, options: ReadinessOptions): Promise<void> {
  const { clock, signal, what, timeoutMilliseconds = 60_000 } = options;
  const deadline = clock.monotonicMilliseconds() + timeoutMilliseconds;
  try {
    for (let pause = 5; !(await options.ready()); pause = Math.min(pause * 1.5, 25)) {
      if (signal?.aborted === true) throw canceled(`Starting ${what}`, signal);
      if (!child.running()) throw await failed(child, `ended with ${await child.ended}`, what);
      if (clock.monotonicMilliseconds() > deadline)
        throw await failed(child, `not ready after ${timeoutMilliseconds / 1000} s`, what);
      await delay(clock, pause, signal);
    }
  } catch (error) {
    await child.kill();
    throw error;
  }
}

async function failed(child: Child, why: string, what: string): Promise<RametError> {
  return new RametError("Unavailable", `Starting ${what} failed: ${why}: ${await child.lastLogLines()}`, {
    hint: "See the whole log in the cluster's directory",
    retryable: true,
  });
}

/** A free TCP port of 127.0.0.1. Another program may take it before the caller does. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
