import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect } from "vitest";
import { runProgram } from "../../src/cli/program.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { memoryIo } from "../setup/memory-io.ts";
import type { Outcome } from "../setup/ramet-user.ts";

/** A user's home directory, with local clusters of its own, and the `ramet` command there. */
export class CliHome {
  readonly #home: string;

  constructor(home: string) {
    this.#home = home;
  }

  /** Runs the real program as a process, on its own cluster. */
  async ramet(
    args: readonly string[],
    input = "",
    onFirstOutput: (child: ChildProcess) => void = () => undefined,
  ): Promise<Outcome> {
    const [program, main] = builtPrograms.ramet;
    const own = { PATH: process.env["PATH"], HOME: this.#home, XDG_DATA_HOME: this.#home };
    const child = spawn(program, [main, ...args], { env: { ...own, ...cachesOf(process.env) } });
    const outcome: Outcome = { exitCode: null, stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (outcome.stdout += chunk.toString()));
    child.stdout.once("data", () => {
      onFirstOutput(child);
    });
    child.stderr.on("data", (chunk: Buffer) => (outcome.stderr += chunk.toString()));
    child.stdin.on("error", () => undefined).end(input);
    await once(child, "close");
    return { ...outcome, exitCode: child.exitCode };
  }

  /** Runs the same command in this process, with in-memory streams. */
  inProcess(args: string[], options: Parameters<typeof memoryIo>[0] = {}) {
    const io = memoryIo({ ...options, environment: { HOME: this.#home, XDG_DATA_HOME: this.#home } });
    const ended = runProgram(io, args).then((exitCode) => ({
      exitCode,
      stdout: io.written("stdout"),
      stderr: io.written("stderr"),
    }));
    return { io, ended };
  }

  /** Runs a command in a sandbox, which must succeed. @returns its output */
  async exec(sandbox: string, ...command: string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.ramet(["sandbox", "exec", sandbox, "--", ...command]);
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    return stdout.trim();
  }
}

/** Shares the machine's tools and images and the run's compile cache; everything else belongs to the test. */
function cachesOf({ XDG_CACHE_HOME, HOME = "", NODE_COMPILE_CACHE }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { XDG_CACHE_HOME: XDG_CACHE_HOME ?? join(HOME, ".cache"), NODE_COMPILE_CACHE };
}
