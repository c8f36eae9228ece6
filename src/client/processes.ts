import { LostStream, mostAnswerBytes, RametError, tooLarge } from "./answer.ts";
import { type Guest, type RequestOptions, unary } from "./connection.ts";
import { type Ended, type Message, openStream, type Output } from "./messages.ts";

export interface CommandOptions extends RequestOptions {
  cwd?: string;
  /** A user of the image. @default the sandbox's user */
  user?: string;
  envs?: Record<string, string>;
  onStdout?: (data: string) => void | Promise<void>;
  onStderr?: (data: string) => void | Promise<void>;
  /** Whether the command reads what `sendStdin` sends. @default false */
  stdin?: boolean;
  /** The command is killed after this time; 0: never. @default 60 s */
  timeoutMs?: number;
  /**
   * How much output `stdout` and `stderr` collect. More is the error `OutOfRange` at the end of the command; callbacks get all output.
   * 0: nothing is collected, and nothing is too much. @default 64 MiB
   */
  maxOutputBytes?: number;
  /** Whether to return when it has started. @default false */
  background?: boolean;
}

export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Why it has ended, if a signal killed it. */
  error?: string;
}

/** A command has ended with another code than 0. */
export class CommandExitError extends RametError implements Omit<CommandResult, "error"> {
  override readonly name = "CommandExitError";
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly error: string | undefined;

  constructor({ exitCode, stdout, stderr, error }: CommandResult) {
    super("CommandFailed", error ?? `The command has ended with the exit code ${exitCode}: ${stderr.slice(-500)}`);
    this.exitCode = exitCode;
    this.stdout = stdout;
    this.stderr = stderr;
    this.error = error;
  }
}

export interface ProcessInfo {
  pid: number;
  tag?: string;
  cmd: string;
  args: string[];
  envs: Record<string, string>;
  cwd?: string;
}

interface ListedProcess {
  pid: number;
  tag?: string;
  config: { cmd: string; args?: string[]; envs?: Record<string, string>; cwd?: string };
}

/** Runs commands in a sandbox, as E2B's client does. */
export class Commands {
  readonly #guest: Guest;

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  /**
   * Runs a command by a shell, and waits for its end.
   * @throws CommandExitError if it ends with another code than 0; RametError, such as `Timeout`
   */
  run(command: string, options: CommandOptions & { background: true }): Promise<CommandHandle>;
  run(command: string, options?: CommandOptions & { background?: false }): Promise<CommandResult>;
  async run(command: string, options: CommandOptions = {}): Promise<CommandHandle | CommandResult> {
    const { cwd, envs = {}, stdin = false, background = false } = options;
    const message = { process: { cmd: "/bin/bash", args: ["-l", "-c", command], envs, cwd }, stdin };
    const handle = await open(this.#guest, "Start", message, options);
    return background ? handle : handle.wait();
  }

  /** Follows a running command. */
  connect(pid: number, options: CommandOptions = {}): Promise<CommandHandle> {
    return open(this.#guest, "Connect", { process: { pid } }, options);
  }

  async list(options?: RequestOptions): Promise<ProcessInfo[]> {
    const method = "process.Process/List";
    const answer = await unary<{ processes?: ListedProcess[] }>(this.#guest, method, {}, options);
    return (answer.processes ?? []).map(({ config, ...each }) => ({
      ...each,
      ...config,
      args: config.args ?? [],
      envs: config.envs ?? {},
    }));
  }

  sendStdin(pid: number, data: string | Uint8Array, options?: RequestOptions): Promise<void> {
    return sendInput(this.#guest, pid, { stdin: base64Of(data) }, options);
  }

  async closeStdin(pid: number, options?: RequestOptions): Promise<void> {
    await unary(this.#guest, "process.Process/CloseStdin", { process: { pid } }, options);
  }

  /** @returns false if there is no such command */
  kill(pid: number, options?: RequestOptions): Promise<boolean> {
    return kill(this.#guest, pid, options);
  }
}

export interface PtyOptions extends Pick<CommandOptions, "cwd" | "user" | "envs" | "timeoutMs" | "signal"> {
  cols: number;
  rows: number;
  onData: (data: Uint8Array) => void | Promise<void>;
}

/** Opens terminals in a sandbox, as E2B's client does. */
export class Pty {
  readonly #guest: Guest;

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  create({ cols, rows, cwd, envs = {}, ...options }: PtyOptions): Promise<CommandHandle> {
    const environment = { TERM: "xterm-256color", LANG: "C.UTF-8", LC_ALL: "C.UTF-8", ...envs };
    const process = { cmd: "/bin/bash", args: ["-i", "-l"], envs: environment, cwd };
    return open(this.#guest, "Start", { process, pty: { size: { cols, rows } } }, options);
  }

  connect(pid: number, options: Pick<PtyOptions, "onData" | "timeoutMs" | "signal">): Promise<CommandHandle> {
    return open(this.#guest, "Connect", { process: { pid } }, options);
  }

  sendInput(pid: number, data: string | Uint8Array, options?: RequestOptions): Promise<void> {
    return sendInput(this.#guest, pid, { pty: base64Of(data) }, options);
  }

  async resize(pid: number, { cols, rows }: { cols: number; rows: number }, options?: RequestOptions): Promise<void> {
    await unary(this.#guest, "process.Process/Update", { process: { pid }, pty: { size: { cols, rows } } }, options);
  }

  kill(pid: number, options?: RequestOptions): Promise<boolean> {
    return kill(this.#guest, pid, options);
  }
}

/** A command that was started or connected to. */
export class CommandHandle {
  readonly pid: number;
  stdout = "";
  stderr = "";
  readonly #guest: Guest;
  readonly #ended: Promise<CommandResult>;
  readonly #disconnect: AbortController;
  #bytes = 0;
  readonly #out = new TextDecoder();
  readonly #err = new TextDecoder();

  constructor(guest: Guest, pid: number, messages: AsyncGenerator<Message>, following: Following) {
    this.pid = pid;
    this.#guest = guest;
    this.#disconnect = following.disconnect;
    this.#ended = this.#follow(messages, following);
    // Nobody has to wait for the end.
    this.#ended.catch(() => undefined);
  }

  /** @throws CommandExitError if it ends with another code than 0 */
  async wait(): Promise<CommandResult> {
    const result = await this.#ended;
    if (result.exitCode !== 0) throw new CommandExitError(result);
    return result;
  }

  kill(): Promise<boolean> {
    return kill(this.#guest, this.pid);
  }

  sendStdin(data: string | Uint8Array, options?: RequestOptions): Promise<void> {
    return sendInput(this.#guest, this.pid, { stdin: base64Of(data) }, options);
  }

  /** Stops to follow the command, which runs on. */
  disconnect(): Promise<void> {
    this.#disconnect.abort();
    return Promise.resolve();
  }

  async #follow(messages: AsyncGenerator<Message>, following: Following): Promise<CommandResult> {
    const { maxOutputBytes = mostAnswerBytes } = following;
    let end: Ended | undefined;
    for await (const { event = {} } of messages) {
      if (event.data !== undefined) await this.#take(event.data, following, maxOutputBytes);
      end = event.end ?? end;
    }
    if (end === undefined) throw new LostStream();
    if (maxOutputBytes > 0 && this.#bytes > maxOutputBytes) throw tooLarge("The output of the command", maxOutputBytes);
    const { stdout, stderr } = this;
    const { exitCode = 0, error = whyKilled(end) } = end;
    return error === undefined ? { exitCode, stdout, stderr } : { exitCode, stdout, stderr, error };
  }

  async #take({ stdout, stderr, pty }: Output, following: Following, mostBytes: number): Promise<void> {
    const isKept = (bytes: Uint8Array) => (this.#bytes += bytes.length) <= mostBytes;
    if (stdout !== undefined) {
      const bytes = fromBase64(stdout);
      const text = this.#out.decode(bytes, { stream: true });
      if (isKept(bytes)) this.stdout += text;
      await following.onStdout?.(text);
    }
    if (stderr !== undefined) {
      const bytes = fromBase64(stderr);
      const text = this.#err.decode(bytes, { stream: true });
      if (isKept(bytes)) this.stderr += text;
      await following.onStderr?.(text);
    }
    if (pty !== undefined) await following.onData?.(fromBase64(pty));
  }
}

function whyKilled({ exited = false, status = "" }: Ended): string | undefined {
  return exited || status === "" ? undefined : status;
}

interface Following extends Pick<CommandOptions, "onStdout" | "onStderr" | "maxOutputBytes"> {
  onData?: (data: Uint8Array) => void | Promise<void>;
  disconnect: AbortController;
}

type Opening = Omit<Following, "disconnect"> &
  Pick<CommandOptions, "user" | "timeoutMs" | "requestTimeoutMs" | "signal">;

async function open(
  guest: Guest,
  method: "Start" | "Connect",
  message: object,
  options: Opening,
): Promise<CommandHandle> {
  const disconnect = new AbortController();
  const messages = await openStream(guest, `process.Process/${method}`, message, { ...options, disconnect });
  const first = await messages.next();
  const pid = first.done === true ? undefined : first.value.event?.start?.pid;
  if (pid === undefined) throw new LostStream();
  return new CommandHandle(guest, pid, messages, { ...options, disconnect });
}

async function sendInput(guest: Guest, pid: number, input: object, options?: RequestOptions): Promise<void> {
  await unary(guest, "process.Process/SendInput", { process: { pid }, input }, options);
}

async function kill(guest: Guest, pid: number, options?: RequestOptions): Promise<boolean> {
  const message = { process: { pid }, signal: "SIGNAL_SIGKILL" };
  return unary(guest, "process.Process/SendSignal", message, options).then(
    () => true,
    (error: unknown) => {
      if (error instanceof RametError && error.code === "NotFound") return false;
      throw error;
    },
  );
}

function base64Of(data: string | Uint8Array): string {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
