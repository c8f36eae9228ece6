import { type ErrorBody, fromBody, RametError } from "./answer.ts";
import {
  Connection,
  type ConnectionOptions,
  defaultSilenceMs,
  endAfter,
  type FollowOptions,
  type Guest,
  orDiscarded,
  type RequestOptions,
  type WaitLimit,
} from "./connection.ts";
import { Files } from "./files.ts";
import { Commands, Pty } from "./processes.ts";

export interface Checkpoint {
  checkpoint_id: string;
  /** The same. */
  id: string;
  name: string | null;
  /** False if the capture has failed. */
  ok: boolean;
  state: "waiting" | "capturing" | "succeeded" | "failed" | "deleting";
  created_at: string;
  /** Null until it has succeeded, as the next ones. */
  size_bytes: number | null;
  size_human: string | null;
  /** From the capture time until its data is stored. */
  copy_duration_ms: number | null;
  /** How long the sandbox was paused. */
  paused_ms: number | null;
  contents: string[] | null;
  /** What it waits for, or why it has failed. */
  message: string | null;
}

export interface Programs {
  processes: number;
  /** Of the programs, at most 20. */
  names: string[];
}

export interface Restored {
  ok: true;
  checkpoint_id: string;
  restore_duration_ms: number;
  /** The processes that the restore has ended. Null: not known. */
  stopped: Programs | null;
  /** Those that ran after it. Null: not known. */
  started: Programs | null;
}

export interface SandboxInfo {
  sandbox_id: string;
  name: string;
  namespace: string;
  state: "starting" | "running" | "snapshotting" | "pausing" | "paused" | "ended" | "killing";
  source: string | null;
  metadata: Record<string, string>;
  created_at: string;
  ends_at: string | null;
  on_timeout: "kill" | "pause";
  message: string | null;
}

export interface LifeOptions extends ConnectionOptions {
  /** How long it lives from now on. @default 300,000 */
  timeoutMs?: number;
}

export interface SandboxOptions extends LifeOptions {
  /** A template, a set or an alias. @default base */
  template?: string;
  /** A named snapshot, `name`, or a version of it, `name@7`. */
  snapshot?: string;
  /** The id of a checkpoint. */
  checkpoint?: string;
  lifecycle?: { onTimeout?: "kill" | "pause" };
  metadata?: Record<string, string>;
  /** Variables of every command that starts in it. */
  envs?: Record<string, string>;
  /** Called with each new state until it runs. */
  onProgress?: (sandbox: SandboxInfo) => void | Promise<void>;
  /** How long to wait until it runs; then it is deleted. @default 120 s */
  startTimeoutMs?: number;
}

export interface NewCheckpoint {
  /** Unique among the checkpoints of the sandbox. */
  name?: string;
  /** @default what the sandbox keeps, else both */
  contents?: ("memory" | "filesystem")[];
  /** The names of volumes, or true for all. @default those that the sandbox keeps */
  volumes?: boolean | string[];
  /** Of the volumes. @default crash */
  consistency?: "crash" | "sync" | "quiesced" | "atomic";
}

export interface WaitOptions extends Omit<FollowOptions<Checkpoint>, "endMs"> {
  checkpoint_id: string;
  timeoutMs?: number;
}

interface Forks {
  forks: (Opened | { error: ErrorBody })[];
}

interface Opened {
  sandbox: SandboxInfo;
  access: { token: string; traffic_token: string; domain: string | null };
}

const guestPort = 49_983;

/** A sandbox that this client can enter. */
export class Sandbox {
  readonly sandboxId: string;
  /** The name of its Sandbox object. */
  readonly name: string;
  readonly checkpoint: Checkpoints;
  readonly commands: Commands;
  readonly files: Files;
  readonly pty: Pty;
  /** The header `e2b-traffic-access-token` of requests to ports that are not public. */
  readonly trafficAccessToken: string;
  readonly #connection: Connection;
  readonly #domain: string | undefined;

  private constructor(connection: Connection, { sandbox, access }: Opened) {
    this.sandboxId = sandbox.sandbox_id;
    this.name = sandbox.name;
    this.trafficAccessToken = access.traffic_token;
    this.#connection = connection;
    this.#domain = connection.options.domain ?? access.domain ?? undefined;
    const guest: Guest = {
      silenceMs: connection.options.requestTimeoutMs ?? defaultSilenceMs,
      send: (path, { headers, ...call }, read) => {
        const { sandboxUrl } = connection.options;
        const origin = sandboxUrl?.replace(/\/+$/, "") ?? `https://${this.getHost(guestPort)}`;
        const to = { "e2b-sandbox-id": this.sandboxId, "e2b-sandbox-port": `${guestPort}` };
        const all = { ...headers, ...to, "x-access-token": access.token };
        return connection.send(`${origin}${path}`, { ...call, headers: all }, read);
      },
    };
    this.checkpoint = new Checkpoints(connection, this.sandboxId);
    this.commands = new Commands(guest);
    this.files = new Files(guest);
    this.pty = new Pty(guest);
  }

  /**
   * Creates a sandbox, and waits until it runs. One that does not start is deleted.
   * @throws RametError
   */
  static async create(options: SandboxOptions = {}): Promise<Sandbox> {
    const { template, snapshot, checkpoint, metadata, envs, timeoutMs, lifecycle, onProgress, signal } = options;
    const connection = new Connection(options);
    const body = { template, snapshot, checkpoint, metadata, envs, timeout_ms: timeoutMs };
    const request = { ...body, on_timeout: lifecycle?.onTimeout };
    const endMs = endAfter(options.startTimeoutMs ?? 120_000);
    // The server creates it although nobody waits for the answer any more.
    const opened = await orDiscarded(
      () => connection.api<Opened>("POST", "/sandboxes", request, { repeats: true }),
      { endMs, signal },
      (late) => new Sandbox(connection, late).kill(),
    );
    const created = new Sandbox(connection, opened);
    try {
      await onProgress?.(opened.sandbox);
      if (opened.sandbox.state !== "running")
        await connection.follow<SandboxInfo>(pathOf(created.sandboxId, "/wait"), { endMs, onProgress, signal });
      return created;
    } catch (error) {
      // What cannot be deleted now ends when its time is over.
      await created.kill().catch(() => false);
      throw error;
    }
  }

  /** Connects to a sandbox by its id or its name. A paused one is resumed, and awaited. */
  static async connect(id: string, options: LifeOptions & WaitLimit = {}): Promise<Sandbox> {
    const connection = new Connection(options);
    return new Sandbox(connection, await connect(connection, id, options));
  }

  static list({ signal, ...options }: ConnectionOptions = {}): Promise<{ sandboxes: SandboxInfo[] }> {
    return new Connection(options).api("GET", "/sandboxes", undefined, { signal });
  }

  /** Deletes a sandbox by its id or its name. @returns false if it does not exist */
  static kill(id: string, { signal, ...options }: ConnectionOptions = {}): Promise<boolean> {
    return new Connection(options).delete(pathOf(id), { signal });
  }

  /** Deletes it. @returns false if it does not exist */
  kill(options?: RequestOptions): Promise<boolean> {
    return this.#connection.delete(pathOf(this.sandboxId), options);
  }

  /** The same. */
  delete(options?: RequestOptions): Promise<boolean> {
    return this.kill(options);
  }

  getInfo(options?: RequestOptions): Promise<SandboxInfo> {
    return this.#connection.api("GET", pathOf(this.sandboxId), undefined, options);
  }

  async isRunning(options?: RequestOptions): Promise<boolean> {
    const { state } = await this.getInfo(options);
    return state === "running" || state === "snapshotting";
  }

  /**
   * Pauses it with its memory, and waits until its state is stored.
   * @throws RametError such as `Timeout`, which does not end the pause
   */
  pause({ memory, ...options }: { memory?: boolean } & WaitLimit = {}): Promise<SandboxInfo> {
    return this.#connection.complete(pathOf(this.sandboxId, "/pause"), { memory }, options);
  }

  /** Resumes it if it is paused, and else extends its time. */
  async resume(options: { timeoutMs?: number } & WaitLimit = {}): Promise<this> {
    await connect(this.#connection, this.sandboxId, options);
    return this;
  }

  /** Sets its remaining time. */
  setTimeout(timeoutMs: number, options?: RequestOptions): Promise<void> {
    const body = { timeout_ms: timeoutMs };
    return this.#connection.api("POST", pathOf(this.sandboxId, "/timeout"), body, { ...options, repeats: true });
  }

  /** Clones it with its memory and processes while it runs. Each clone succeeds or fails independently. */
  async fork(
    options: RequestOptions & { count?: number; timeoutMs?: number; lifecycle?: SandboxOptions["lifecycle"] } = {},
  ): Promise<(Sandbox | RametError)[]> {
    const { count, timeoutMs, lifecycle, ...call } = options;
    const body = { count, timeout_ms: timeoutMs, on_timeout: lifecycle?.onTimeout };
    const path = pathOf(this.sandboxId, "/fork");
    const answer = await this.#connection.api<Forks>("POST", path, body, call);
    return answer.forks.map((fork) =>
      "error" in fork ? fromBody(fork.error, 0) : new Sandbox(this.#connection, fork),
    );
  }

  /** The host name of a port. */
  getHost(port: number): string {
    if (this.#domain !== undefined) return `${port}-${this.sandboxId}.${this.#domain}`;
    throw new RametError("InvalidArgument", "There is no domain", { hint: "Set RAMET_DOMAIN" });
  }
}

/** Captures a sandbox and goes back to what was captured. */
export class Checkpoints {
  readonly #connection: Connection;
  readonly #path: string;

  constructor(connection: Connection, sandboxId: string) {
    this.#connection = connection;
    this.#path = pathOf(sandboxId, "/checkpoints");
  }

  /** Requests a checkpoint, and does not wait for it. */
  create(given: NewCheckpoint = {}, options?: RequestOptions): Promise<Checkpoint> {
    return this.#connection.api("POST", this.#path, given, { ...options, repeats: true });
  }

  list(options?: RequestOptions): Promise<{ checkpoints: Checkpoint[] }> {
    return this.#connection.api("GET", this.#path, undefined, options);
  }

  /**
   * Waits until a checkpoint can be restored and cloned.
   * @param options.timeoutMs the time limit; 0: none. Default: 10 minutes
   * @throws RametError the error of the capture; `Timeout`, which does not end the capture
   */
  wait({ checkpoint_id, timeoutMs = 600_000, ...options }: WaitOptions): Promise<Checkpoint> {
    const path = `${this.#path}/${encodeURIComponent(checkpoint_id)}/wait`;
    return this.#connection.follow<Checkpoint>(path, { endMs: endAfter(timeoutMs), ...options });
  }

  /** Deletes a checkpoint. Sandboxes that were created from it stay. @returns false if it does not exist */
  delete(id: string, options?: RequestOptions): Promise<boolean> {
    return this.#connection.delete(`${this.#path}/${encodeURIComponent(id)}`, options);
  }

  /**
   * Restores a checkpoint in the sandbox, in place: what it has changed since is lost.
   * @throws RametError such as `Timeout`, which does not end the restore
   */
  restore(id: string, options: WaitLimit = {}): Promise<Restored> {
    return this.#connection.complete(`${this.#path}/${encodeURIComponent(id)}/restore`, undefined, options);
  }
}

function connect(
  connection: Connection,
  id: string,
  { timeoutMs, waitTimeoutMs, signal }: { timeoutMs?: number } & WaitLimit,
): Promise<Opened> {
  return connection.complete(pathOf(id, "/connect"), { timeout_ms: timeoutMs }, { waitTimeoutMs, signal });
}

function pathOf(id: string, rest = ""): string {
  return `/sandboxes/${encodeURIComponent(id)}${rest}`;
}
