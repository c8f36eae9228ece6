import type { Readable } from "node:stream";
import { RametError } from "../../base/errors.ts";
import type { GuestClient, ProcessSelector, StartProcess } from "../../cell/client/guest-client.ts";
import { withGuest } from "../cluster/cell-access.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type Io, isBrokenPipe, printLine, type Terminal, writeAll } from "../io.ts";
import { reportError } from "../report-error.ts";

export interface CommandToRun {
  command: readonly [string, ...string[]];
  /** Whether the command gets our stdin; without, it reads end-of-file. */
  stdin?: boolean;
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  terminal: Terminal | undefined;
}

/**
 * Runs a command through the guest: its output to ours, our input and signals to it. Answers its exit code, as a shell
 * has it.
 *
 * @throws RametError when it cannot be started or the connection breaks
 */
export async function runCommand(io: Io, guest: GuestClient, wish: CommandToRun): Promise<number> {
  const broken = new AbortController();
  const fail = (error: unknown): void => {
    broken.abort(error);
  };
  const undo: (() => void)[] = [];
  let running: ProcessSelector | undefined;
  const events = guest.startProcess(startOf(io, wish), AbortSignal.any([io.signal, broken.signal]));
  try {
    for await (const event of events) {
      if (event.type === "start") {
        running = { pid: event.pid };
        undo.push(...connectInputs({ io, guest, command: running, wish, fail }));
      } else if (event.type === "data") {
        await writeAll(event.stream === "stderr" ? io.stderr : io.stdout, event.data);
      } else {
        if (event.missedBytes > 0)
          printLine(io.stderr, `${event.missedBytes} bytes of output came too fast and are lost`);
        return event.exitCode;
      }
    }
  } catch (error) {
    // Nobody reads what the command prints any more: on one machine the kernel would end it.
    if (isBrokenPipe(error) && running !== undefined) await guest.signal(running, "SIGTERM").catch(() => undefined);
    throw broken.signal.aborted ? RametError.from(broken.signal.reason) : error;
  } finally {
    for (const step of undo.reverse()) step();
  }
  throw new RametError("GuestUnreachable", `Running ${wish.command[0]} failed: its end was not told`);
}

function startOf(io: Io, { command, stdin, env, cwd, terminal }: CommandToRun): StartProcess {
  const [program, ...args] = command;
  const term = terminal === undefined ? undefined : io.environment["TERM"];
  return {
    command: program,
    args,
    environment: { ...(term === undefined ? {} : { TERM: term }), ...env },
    ...(cwd === undefined ? {} : { workingDirectory: cwd }),
    stdin: stdin ?? false,
    ...(terminal === undefined ? {} : { pty: terminal.size() }),
  };
}

interface Connected {
  io: Io;
  guest: GuestClient;
  command: ProcessSelector;
  wish: CommandToRun;
  fail: (error: unknown) => void;
}

/** Input, signals and the terminal's size go to the command. Answers what undoes it. */
function connectInputs({ io, guest, command, wish, fail }: Connected): (() => void)[] {
  const { terminal, stdin } = wish;
  // A command that has ended, or has closed its input, takes nothing more; its end is on its way or yet to come.
  const unlessEnded = (error: unknown): void => {
    if (!(error instanceof RametError) || (error.code !== "NotFound" && error.code !== "Conflict")) fail(error);
  };
  const undo = [io.takeSignals(signalSender(guest, command, unlessEnded))];
  if (terminal !== undefined) {
    terminal.setRaw(stdin === true);
    undo.push(() => {
      terminal.setRaw(false);
    });
    undo.push(
      terminal.onResize(() => {
        guest.resize(command, terminal.size()).catch(unlessEnded);
      }),
    );
  }
  if (stdin === true) {
    const input = guest.openInput(command, terminal === undefined ? "stdin" : "pty");
    const receiver = {
      take: (data: Buffer) => input.write(data),
      end: async () => {
        if (terminal !== undefined) await input.write(endOfInput);
        await input.end();
        if (terminal === undefined) await guest.closeStdin(command);
      },
    };
    undo.push(() => {
      input.close();
    });
    undo.push(feedStdin(io.stdin, receiver, unlessEnded));
  }
  return undo;
}

/** Ctrl-D: how a terminal says end-of-file. */
const endOfInput = Buffer.from([4]);

/** The guest knows two signals: the first of ours asks the command to end, the next one ends it. */
function signalSender(guest: GuestClient, command: ProcessSelector, onError: (error: unknown) => void): () => void {
  let asked = false;
  return () => {
    guest.signal(command, asked ? "SIGKILL" : "SIGTERM").catch(onError);
    asked = true;
  };
}

interface InputReceiver {
  /** Returns when there is room for more. */
  take(data: Buffer): Promise<void>;
  end(): Promise<void>;
}

/**
 * Passes what is read on, one part after the other, until the function that is returned is called. The reader is then
 * left as it is: it may be the process' own stdin.
 */
export function feedStdin(stdin: Readable, receiver: InputReceiver, onError: (error: unknown) => void): () => void {
  let stopped = false;
  let passing = Promise.resolve();
  // A paused stream may still give what it had begun to give, its end too: so each step waits for the one before.
  const pass = (step: () => Promise<void>): void => {
    stdin.pause();
    passing = passing.then(async () => {
      if (stopped) return;
      await step();
      if (!isStopped()) stdin.resume();
    });
    passing.catch((error: unknown) => {
      if (!stopped) onError(error);
    });
  };
  const isStopped = (): boolean => stopped;
  const onData = (data: Buffer | string): void => {
    pass(() => receiver.take(Buffer.from(data)));
  };
  const onEnd = (): void => {
    pass(() => receiver.end());
  };
  stdin.on("data", onData).on("end", onEnd);
  return () => {
    stopped = true;
    stdin.off("data", onData).off("end", onEnd).pause();
  };
}

export interface ExecOptions extends ClusterOptions, Omit<CommandToRun, "terminal"> {
  name: string;
  /** Whether the command gets a terminal, if we have one. */
  tty?: boolean;
  user?: string;
}

/** `ramet sandbox exec`: runs a command in a sandbox and ends with its exit code. */
export async function execInSandbox(io: Io, options: ExecOptions): Promise<number> {
  const terminal = options.tty === true ? io.terminal : undefined;
  if (options.tty === true && terminal === undefined) {
    printLine(io.stderr, "-t is ignored: stdin and stdout are no terminal");
  }
  return withCluster(io, options, async (cluster) => {
    const sandbox = await cluster.get(cluster.sandboxes, options.name, io.signal);
    const access = { user: options.user, signal: io.signal };
    return withGuest(cluster, sandbox, access, async (guest) => {
      try {
        return await runCommand(io, guest, { ...options, terminal });
      } catch (error) {
        if (!(error instanceof RametError) || error.code !== "InvalidArgument") throw error;
        reportError(io, error);
        return cannotBeStarted;
      }
    });
  });
}

/** What shells say of a command that is not there. */
const cannotBeStarted = 127;
