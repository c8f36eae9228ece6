import { once } from "node:events";
import { closeSync, constants, existsSync, openSync, readSync } from "node:fs";
import { RametError } from "../../base/errors.ts";
import { runProgram, startProgram, type ProgramResult, type StartedProgram } from "../../base/run-program.ts";

export interface HeldCommandOptions {
  program: string;
  args: readonly string[];
  /** The name of the command in errors. */
  what: string;
  environment?: Readonly<Record<string, string>>;
  /** The named pipe that is passed as its log file. Created if missing; the next command reuses it. */
  gate: string;
}

/**
 * A command of gVisor that was started before it is needed. It blocks when it opens its log, because the log is a named pipe
 * without a reader (fifo(7)). By then its program is loaded, which is a large part of the duration of a short command. A blocked
 * process uses less than 3 MiB of its own.
 */
export class HeldCommand {
  readonly #started: StartedProgram;
  readonly #gate: string;

  private constructor(started: StartedProgram, gate: string) {
    this.#started = started;
    this.#gate = gate;
  }

  /** @throws RametError `ToolMissing` if there is no `mkfifo`; `EngineFailed` if it fails */
  static async start({ gate, ...command }: HeldCommandOptions): Promise<HeldCommand> {
    if (!existsSync(gate)) {
      const created = await runProgram({
        program: "mkfifo",
        args: ["-m", "600", gate],
        timeoutMilliseconds: makeMilliseconds,
      });
      if (created.code !== 0)
        throw new RametError("EngineFailed", `creating a named pipe failed: ${created.stderr.trim()}`);
    }
    return new HeldCommand(startProgram(command), gate);
  }

  /** Whether the process still runs. */
  get isRunning(): boolean {
    const { pid, exitCode, signalCode } = this.#started.child;
    return pid !== undefined && exitCode === null && signalCode === null;
  }

  /** Unblocks the command and waits until it exits. @throws RametError `Timeout` */
  async release(timeoutMilliseconds: number): Promise<ProgramResult & { log: string }> {
    // Opening both ends does not block, and unblocks a process that waits for either end.
    const pipe = openSync(this.#gate, constants.O_RDWR | constants.O_NONBLOCK);
    try {
      return { ...(await this.#started.ended(timeoutMilliseconds)), log: textIn(pipe) };
    } finally {
      closeSync(pipe);
    }
  }

  async drop(): Promise<void> {
    if (!this.isRunning) return;
    const exit = once(this.#started.child, "exit");
    this.#started.child.kill("SIGKILL");
    await exit;
  }
}

const makeMilliseconds = 5_000;

/** Reads what was written into the pipe: little, because gVisor only logs why it failed. */
function textIn(pipe: number): string {
  const buffer = Buffer.alloc(1 << 16);
  try {
    return buffer.toString("utf8", 0, readSync(pipe, buffer));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return "";
    throw error;
  }
}
