import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import * as z from "zod";
import { defined } from "../../base/defined.ts";
import {
  callGuest,
  type GuestCall,
  type GuestDial,
  guestError,
  guestLimits,
  parsedAnswer,
  textOf,
} from "./guest-http.ts";
import { guestInput, type GuestInput } from "./guest-input.ts";
import {
  type ProcessEvent,
  processEvents,
  EntriesAnswer,
  EntryAnswer,
  envelope,
  type FileEntry,
  type FileEvent,
  fileEvents,
  ProcessListAnswer,
} from "./guest-wire.ts";

export interface GuestClientOptions {
  /** Opens a stream to port 49983 of the sandbox. */
  dial: GuestDial;
  /** The guest's own token, or one for a gateway, which replaces it; see cell-token.ts. @default the gateway adds it */
  accessToken?: string;
  /** Returns further headers of each call, which a gateway requires. @default none */
  callHeaders?: () => Promise<Record<string, string>>;
  /**
   * The user that runs commands and owns files: a name in the image, a number or `containerUser`.
   * @default the user that calls of E2B's SDKs mean
   */
  user?: string;
}

/** The entrypoint's user. Ramet's guest accepts it; E2B's envd has no such name for it. */
export const containerUser = "";

export type ProcessSelector = { pid: number } | { tag: string };

export interface StartProcess {
  command: string;
  args?: readonly string[];
  /** Added to the environment of the container and of the sandbox. */
  environment?: Readonly<Record<string, string>>;
  /** @default the container's working directory, else the user's home */
  workingDirectory?: string;
  /** A name by which this and other clients can select the command. */
  tag?: string;
  /** Whether the command accepts input. If not, it reads end-of-file. @default false */
  stdin?: boolean;
  /** Gives the command a terminal of this size. */
  pty?: { columns: number; rows: number };
  /** The command is killed after this time. @default never */
  timeoutMilliseconds?: number;
}

/** A command that runs, with what its client has given. */
export interface RunningProcess extends Pick<StartProcess, "command" | "tag" | "workingDirectory"> {
  pid: number;
  args: string[];
  environment: Record<string, string>;
}

/** A client of the guest for commands and files. The API is that of E2B's envd (Connect RPC in JSON, and HTTP). */
export class GuestClient {
  readonly #dial: GuestDial;
  readonly #callHeaders: () => Promise<Record<string, string>>;
  readonly #own: Record<string, string>;

  constructor({ dial, accessToken, user, callHeaders = () => Promise.resolve({}) }: GuestClientOptions) {
    this.#dial = dial;
    this.#callHeaders = callHeaders;
    this.#own = {
      ...defined({ "x-access-token": accessToken }),
      ...(user === undefined ? {} : { authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}` }),
    };
  }

  /**
   * Starts a command and follows it until it exits. Leaving the loop, or aborting, does not stop the command: follow it again
   * with `connect`, which also returns its output since then.
   *
   * @throws RametError `InvalidArgument` if it cannot be started, `Timeout` if its time limit is exceeded, `GuestUnreachable`
   *   if the connection is lost, for example by a restore
   */
  startProcess(start: StartProcess, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const { command, args = [], environment = {}, workingDirectory, stdin = false, tag, pty } = start;
    const message = {
      process: { cmd: command, args, envs: environment, cwd: workingDirectory },
      stdin,
      tag,
      pty: pty && { size: { cols: pty.columns, rows: pty.rows } },
    };
    const timeout = start.timeoutMilliseconds;
    const headers = defined({ "connect-timeout-ms": timeout === undefined ? undefined : `${Math.ceil(timeout)}` });
    const open = () => this.#stream("process.Process/Start", message, { headers, signal });
    return processEvents(`running ${command}`, open, signal);
  }

  /** Follows a running command: its buffered output, then new output, then its end. */
  connect(process: ProcessSelector, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const open = () => this.#stream("process.Process/Connect", { process }, { signal });
    return processEvents("following a command", open, signal);
  }

  /** Resolves when the command has read the bytes or the kernel has buffered them. */
  async sendInput(process: ProcessSelector, data: Uint8Array, into: "stdin" | "pty" = "stdin"): Promise<void> {
    const input = { [into]: Buffer.from(data).toString("base64") };
    await this.#unary("sending input to a command", "process.Process/SendInput", { process, input }, Empty);
  }

  /** Opens a stream for input in many parts, which share one connection. */
  openInput(process: ProcessSelector, into: "stdin" | "pty" = "stdin"): GuestInput {
    return guestInput({
      process,
      into,
      call: async (body, signal) =>
        ok(
          "sending input to a command",
          await this.#post("/process.Process/StreamInput", "application/connect+json", { body, signal }),
        ),
    });
  }

  async closeStdin(process: ProcessSelector): Promise<void> {
    await this.#unary("closing a command's input", "process.Process/CloseStdin", { process }, Empty);
  }

  /** Sends a signal to the command and its process group. */
  async signal(process: ProcessSelector, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const message = { process, signal: `SIGNAL_${signal}` };
    await this.#unary("sending a signal", "process.Process/SendSignal", message, Empty);
  }

  async resize(process: ProcessSelector, size: { columns: number; rows: number }): Promise<void> {
    const message = { process, pty: { size: { cols: size.columns, rows: size.rows } } };
    await this.#unary("resizing a terminal", "process.Process/Update", message, Empty);
  }

  async listProcesses(): Promise<RunningProcess[]> {
    const { processes } = await this.#unary("listing commands", "process.Process/List", {}, ProcessListAnswer);
    return processes.map(({ pid, tag, config: { cmd: command, args, envs: environment, cwd: workingDirectory } }) => ({
      pid,
      command,
      args,
      environment,
      ...defined({ tag, workingDirectory }),
    }));
  }

  /** Reads a file as a stream. Destroy the stream to stop early. */
  async readFile(path: string, signal?: AbortSignal): Promise<Readable> {
    const response = await callGuest(this.#dial, {
      method: "GET",
      path: pathOf(path),
      headers: await this.#headers(),
      signal,
      responseMilliseconds,
    });
    return ok(`reading ${path}`, response);
  }

  /** Writes a file in place, and creates its parent directories. */
  async writeFile(path: string, content: Buffer | Readable, signal?: AbortSignal): Promise<void> {
    const call = { body: content, signal };
    const response = await this.#post(pathOf(path), "application/octet-stream", call);
    await textOf(await ok(`writing ${path}`, response), guestLimits.control);
  }

  async stat(path: string): Promise<FileEntry> {
    const what = `reading the attributes of ${path}`;
    return (await this.#unary(what, "filesystem.Filesystem/Stat", { path }, EntryAnswer)).entry;
  }

  /** Lists a directory, and its subdirectories if `depth` is above 1. */
  async list(path: string, depth = 1): Promise<FileEntry[]> {
    const message = { path, depth };
    return (await this.#unary(`listing ${path}`, "filesystem.Filesystem/ListDir", message, EntriesAnswer)).entries;
  }

  /** Creates a directory and its parents. @throws RametError `AlreadyExists` */
  async makeDirectory(path: string): Promise<void> {
    await this.#unary(`creating ${path}`, "filesystem.Filesystem/MakeDir", { path }, Empty);
  }

  /** Renames a file or a directory. */
  async move(source: string, destination: string): Promise<void> {
    await this.#unary(`moving ${source}`, "filesystem.Filesystem/Move", { source, destination }, Empty);
  }

  /** Removes a file, or a directory with its content. Succeeds if the path does not exist. */
  async remove(path: string): Promise<void> {
    await this.#unary(`removing ${path}`, "filesystem.Filesystem/Remove", { path }, Empty);
  }

  /**
   * Follows the changes of a directory: `start` when it is watched, then each change. Leaving the loop ends the watch.
   * @throws RametError `NotFound`, also when the directory is removed; `Internal` if more changes wait than the guest holds
   */
  watch(path: string, recursive: boolean, signal?: AbortSignal): AsyncGenerator<FileEvent> {
    const open = () => this.#stream("filesystem.Filesystem/WatchDir", { path, recursive }, { signal });
    return fileEvents(`watching ${path}`, open, signal);
  }

  async #headers(): Promise<Record<string, string>> {
    return { ...(await this.#callHeaders()), ...this.#own };
  }

  async #post(
    path: string,
    contentType: string,
    { headers, ...call }: Omit<GuestCall, "method" | "path">,
  ): Promise<IncomingMessage> {
    const all = { ...(await this.#headers()), ...headers, "content-type": contentType };
    return callGuest(this.#dial, { method: "POST", path, headers: all, ...call });
  }

  async #unary<T extends z.ZodType>(what: string, method: string, message: object, answer: T): Promise<z.infer<T>> {
    const body = Buffer.from(JSON.stringify(message));
    const response = await this.#post(`/${method}`, "application/json", { body, responseMilliseconds });
    const text = await textOf(await ok(what, response), guestLimits.list);
    return parsedAnswer(answer, text, `the guest's answer to ${what}`, mostValuesOfList);
  }

  async #stream(
    method: "process.Process/Start" | "process.Process/Connect" | "filesystem.Filesystem/WatchDir",
    message: object,
    call: Pick<GuestCall, "headers" | "signal">,
  ): Promise<IncomingMessage> {
    const body = envelope(message);
    const response = await this.#post(`/${method}`, "application/connect+json", {
      ...call,
      body,
      responseMilliseconds,
    });
    return ok(method, response);
  }
}

function pathOf(path: string): string {
  return `/files?${new URLSearchParams({ path }).toString()}`;
}

/** The time limit for the start of a response, except to an upload. */
const responseMilliseconds = 60_000;

/** An entry has eleven values, and a list of 16 MiB has no more than this. */
const mostValuesOfList = 1_200_000;

const Empty = z.object({});

async function ok(what: string, response: IncomingMessage): Promise<IncomingMessage> {
  if (response.statusCode === 200) return response;
  throw guestError(what, response.statusCode ?? 0, await textOf(response, guestLimits.error));
}
