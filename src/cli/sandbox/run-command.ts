import type { Readable } from "node:stream";
import { RametError } from "../../base/errors.ts";
import { outputOpen } from "../../cell/client/guest-wire.ts";
import type { GuestClient, ProcessSelector, StartProcess } from "../../cell/client/guest-client.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { withGuest } from "../cluster/guest-access.ts";
import { type Io, isBrokenPipe, printLine, type Terminal, writeAll } from "../io.ts";
import { reportError } from "../report-error.ts";

export interface CommandToRun {
  command: readonly [string, ...string[]];
  /** Whether the command reads this process's stdin. Otherwise its stdin is empty. */
  stdin?: boolean;
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  terminal: Terminal | undefined;
}

/**
 * Runs a command through the guest, and forwards its output, and this process's input and signals. Returns its exit code, as
 * a shell would.
 *
 * @throws RametError if the command cannot be started or the connection breaks
 */
export async function runCommand(io: Io, guest: GuestClient, request: CommandToRun): Promise<number> {
  const broken = new AbortController();
  const fail = (error: unknown): void => {
    broken.abort(error);
  };
  const undo: (() => void)[] = [];
  let running: ProcessSelector | undefined;
  const events = guest.startProcess(startOf(io, request), AbortSignal.any([io.signal, broken.signal]));
  try {
    for await (const event of events) {
      if (event.type === "start") {
        running = { pid: event.pid };
        undo.push(...connectInputs({ io, guest, command: running, request, fail }));
      } else if (event.type === "data") {
        await writeAll(event.stream === "stderr" ? io.stderr : io.stdout, event.data);
      } else {
        if (event.missedBytes > 0)
          printLine(io.stderr, `${event.missedBytes} bytes of output were lost: they came too fast`);
        if (event.outputOpen) printLine(io.stderr, `Output is incomplete: ${outputOpen}`);
        return event.exitCode;
      }
    }
  } catch (error) {
    // The reader of the output has exited: a local command would get SIGPIPE.
    if (isBrokenPipe(error) && running !== undefined) await guest.signal(running, "SIGTERM").catch(() => undefined);
    throw broken.signal.aborted ? RametError.from(broken.signal.reason) : error;
  } finally {
    for (const step of undo.reverse()) step();
  }
  throw new RametError(
    "GuestUnreachable",
    `Running ${request.command[0]} failed: the connection ended before the command`,
  );
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
  request: CommandToRun;
  fail: (error: unknown) => void;
}

/** Forwards input, signals and the terminal's size to the command. @returns a function that ends that */
function connectInputs({ io, guest, command, request, fail }: Connected): (() => void)[] {
  const { terminal, stdin } = request;
  // The command has ended or closed its input; its exit event follows.
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

/** Ctrl-D: end-of-file of a terminal. */
const endOfInput = Buffer.from([4]);

/** The first signal terminates the command, the next one kills it. */
function signalSender(guest: GuestClient, command: ProcessSelector, onError: (error: unknown) => void): () => void {
  let asked = false;
  return () => {
    guest.signal(command, asked ? "SIGKILL" : "SIGTERM").catch(onError);
    asked = true;
  };
}

interface InputReceiver {
  /** Resolves when the stream accepts more. */
  take(data: Buffer): Promise<void>;
  end(): Promise<void>;
}

/**
 * Forwards chunks one after another. The returned function ends that and leaves the reader open: it may be the process's
 * own stdin.
 */
export function feedStdin(stdin: Readable, receiver: InputReceiver, onError: (error: unknown) => void): () => void {
  let stopped = false;
  let passing = Promise.resolve();
  // A paused stream may still emit chunks and its end, so each step waits for the one before.
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

export interface ExecOptions extends ClusterOptions, AccessFlags, Omit<CommandToRun, "terminal"> {
  name: string;
  /** Whether to allocate a terminal, if this process has one. */
  tty?: boolean;
  user?: string;
}

/** `ramet sandbox exec`: runs a command in a sandbox and returns its exit code. */
export async function execInSandbox(io: Io, options: ExecOptions): Promise<number> {
  const terminal = options.tty === true ? io.terminal : undefined;
  if (options.tty === true && terminal === undefined) {
    printLine(io.stderr, "-t is ignored: stdin and stdout are not a terminal");
  }
  return withCluster(io, options, async (cluster) => {
    const access = { sandbox: options.name, flags: options, user: options.user };
    return withGuest(io, cluster, access, async (guest) => {
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

/** The exit code of shells for a command that does not exist. */
const cannotBeStarted = 127;
