import { once } from "node:events";
import { closeSync, constants, existsSync, openSync, readSync } from "node:fs";
import { RametError } from "../../base/errors.ts";
import { runProgram, startProgram, type ProgramResult, type StartedProgram } from "../../base/run-program.ts";

export interface HeldCommandOptions {
  program: string;
  args: readonly string[];
  /** What it is run for, as an error names it. */
  what: string;
  /** Where it is told to log, and waits; made, and used again by the next one. */
  gate: string;
}

/**
 * A command of gVisor that was started before it is needed, and stands still where it opens its log: that is a pipe with a
 * name, and to open one for writing waits for a reader (fifo(7)). Its program is loaded by then, which is much of what a
 * short command takes. Such a process has under 3 MiB of its own.
 */
export class HeldCommand {
  readonly #started: StartedProgram;
  readonly #gate: string;

  private constructor(started: StartedProgram, gate: string) {
    this.#started = started;
    this.#gate = gate;
  }

  /** @throws RametError `ToolMissing` where there is no `mkfifo`, `EngineFailed` where it makes no pipe */
  static async start({ gate, ...command }: HeldCommandOptions): Promise<HeldCommand> {
    if (!existsSync(gate)) {
      const made = await runProgram({
        program: "mkfifo",
        args: ["-m", "600", gate],
        timeoutMilliseconds: makeMilliseconds,
      });
      if (made.code !== 0) throw new RametError("EngineFailed", `a pipe could not be made: ${made.stderr.trim()}`);
    }
    return new HeldCommand(startProgram(command), gate);
  }

  /** Whether it can still be let go on. */
  get isThere(): boolean {
    const { pid, exitCode, signalCode } = this.#started.child;
    return pid !== undefined && exitCode === null && signalCode === null;
  }

  /** Lets it go on, to its end. @throws RametError `Timeout` */
  async release(timeoutMilliseconds: number): Promise<ProgramResult & { log: string }> {
    // Both ends at once: this waits for nobody, and whoever waits for either goes on.
    const pipe = openSync(this.#gate, constants.O_RDWR | constants.O_NONBLOCK);
    try {
      return { ...(await this.#started.ended(timeoutMilliseconds)), log: textIn(pipe) };
    } finally {
      closeSync(pipe);
    }
  }

  /** Ends it, as it is not needed. */
  async drop(): Promise<void> {
    if (!this.isThere) return;
    const exit = once(this.#started.child, "exit");
    this.#started.child.kill("SIGKILL");
    await exit;
  }
}

const makeMilliseconds = 5_000;

/** What was written into it; that is little, as gVisor logs there only why it failed. */
function textIn(pipe: number): string {
  const buffer = Buffer.alloc(1 << 16);
  try {
    return buffer.toString("utf8", 0, readSync(pipe, buffer));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return "";
    throw error;
  }
}
