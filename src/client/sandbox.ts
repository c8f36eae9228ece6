import { type ErrorBody, fromBody, RametError } from "./answer.ts";
import { Connection, type ConnectionOptions, endAfter, type FollowOptions, type Guest } from "./connection.ts";
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
    const { template, snapshot, checkpoint, metadata, envs, timeoutMs, lifecycle, onProgress } = options;
    const connection = new Connection(options);
    const body = { template, snapshot, checkpoint, metadata, envs, timeout_ms: timeoutMs };
    const request = { ...body, on_timeout: lifecycle?.onTimeout };
    const endMs = endAfter(options.startTimeoutMs ?? 120_000);
    const opened = await connection.api<Opened>("POST", "/sandboxes", request, { repeats: true, endMs });
    const created = new Sandbox(connection, opened);
    await onProgress?.(opened.sandbox);
    if (opened.sandbox.state === "running") return created;
    try {
      await connection.follow<SandboxInfo>(pathOf(created.sandboxId, "/wait"), { endMs, onProgress });
    } catch (error) {
      await Sandbox.kill(created.sandboxId, withoutSignal(options)).catch(() => false);
      throw error;
    }
    return created;
  }

  /** Connects to a sandbox by its id or its name. A paused one is resumed. */
  static async connect(id: string, options: LifeOptions = {}): Promise<Sandbox> {
    const connection = new Connection(options);
    return new Sandbox(connection, await connect(connection, id, options));
  }

  static list(options: ConnectionOptions = {}): Promise<{ sandboxes: SandboxInfo[] }> {
    return new Connection(options).api("GET", "/sandboxes");
  }

  /** Deletes a sandbox by its id or its name. @returns false if it does not exist */
  static async kill(id: string, options: ConnectionOptions = {}): Promise<boolean> {
    try {
      await new Connection(options).api("DELETE", pathOf(id));
      return true;
    } catch (error) {
      if (error instanceof RametError && error.code === "NotFound") return false;
      throw error;
    }
  }

  kill(): Promise<boolean> {
    return Sandbox.kill(this.sandboxId, this.#connection.options);
  }

  /** The same. */
  delete(): Promise<boolean> {
    return this.kill();
  }

  getInfo(): Promise<SandboxInfo> {
    return this.#connection.api("GET", pathOf(this.sandboxId));
  }

  async isRunning(): Promise<boolean> {
    const { state } = await this.getInfo();
    return state === "running" || state === "snapshotting";
  }

  /** Pauses it with its memory, and waits until its state is stored. */
  pause(options: { memory?: boolean } = {}): Promise<SandboxInfo> {
    return this.#connection.api("POST", pathOf(this.sandboxId, "/pause"), options, { repeats: true });
  }

  /** Resumes it if it is paused, and else extends its time. */
  async resume(options: { timeoutMs?: number } = {}): Promise<this> {
    await connect(this.#connection, this.sandboxId, options);
    return this;
  }

  /** Sets its remaining time. */
  setTimeout(timeoutMs: number): Promise<void> {
    const body = { timeout_ms: timeoutMs };
    return this.#connection.api("POST", pathOf(this.sandboxId, "/timeout"), body, { repeats: true });
  }

  /** Clones it with its memory and processes while it runs. Each clone succeeds or fails independently. */
  async fork(
    options: { count?: number; timeoutMs?: number; lifecycle?: { onTimeout?: "kill" | "pause" } } = {},
  ): Promise<(Sandbox | RametError)[]> {
    const { count, timeoutMs, lifecycle } = options;
    const body = { count, timeout_ms: timeoutMs, on_timeout: lifecycle?.onTimeout };
    const path = pathOf(this.sandboxId, "/fork");
    const answer = await this.#connection.api<{ forks: (Opened | { error: ErrorBody })[] }>("POST", path, body);
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
  create(options: NewCheckpoint = {}): Promise<Checkpoint> {
    return this.#connection.api("POST", this.#path, options, { repeats: true });
  }

  list(): Promise<{ checkpoints: Checkpoint[] }> {
    return this.#connection.api("GET", this.#path);
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

  /** Deletes a checkpoint. Sandboxes that were created from it stay. */
  delete(id: string): Promise<void> {
    return this.#connection.api("DELETE", `${this.#path}/${encodeURIComponent(id)}`);
  }

  /** Restores a checkpoint in the sandbox, in place: what it has changed since is lost. */
  restore(id: string): Promise<Restored> {
    const path = `${this.#path}/${encodeURIComponent(id)}/restore`;
    return this.#connection.api("POST", path, undefined, { repeats: true });
  }
}

function connect(connection: Connection, id: string, { timeoutMs }: { timeoutMs?: number }): Promise<Opened> {
  return connection.api("POST", pathOf(id, "/connect"), { timeout_ms: timeoutMs }, { repeats: true });
}

function pathOf(id: string, rest = ""): string {
  return `/sandboxes/${encodeURIComponent(id)}${rest}`;
}

function withoutSignal({ signal: _, ...options }: ConnectionOptions): ConnectionOptions {
  return options;
}
