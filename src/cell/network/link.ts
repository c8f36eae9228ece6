import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import type { EgressPolicy, EgressReport, LinkCredentials } from "../../api/wire/cell-api.ts";
import { isAborted, onAbort } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { type DialOptions, LinkLines, dialLink } from "./link-lines.ts";

export interface LinkConfig {
  /** Path of the Unix socket that link creates for connections to the sandbox: at most 107 bytes. */
  socket: string;
  /** Container ports that are also reachable at `listen` while the gate is open. */
  ports: readonly number[];
  /** IP address outside the sandbox. Empty: none. */
  listen: string;
  egress: EgressPolicy;
  /** DNS resolvers, each an IP address with an optional port. Empty: those of this machine or Pod. */
  dns: { upstreams: readonly string[]; clusterDomain?: string | undefined };
  /** IPv4 ranges of the cluster. They are reachable only if a rule names them. @default none */
  refuse?: readonly string[];
}

export interface SpawnLinkOptions {
  /** Path of `ramet-link`. */
  binary: string;
  /** Receives the lines that link writes for the operator, such as a refused connection. */
  log?: (line: string) => void;
}

export interface StartLinkOptions {
  config: LinkConfig;
  /** Aborts the start. Use `stop` for a link that has started. */
  signal?: AbortSignal;
}

/** A process of link without a configuration. It has created the sandbox's network namespaces, or is about to. */
export interface SpawnedLink {
  child: ChildProcessWithoutNullStreams;
  lines: LinkLines;
}

/**
 * Gives a process of link its configuration and waits until the sandbox's network is ready. The gate is closed at first.
 *
 * @throws RametError `ToolMissing`, `HostUnsupported` (the kernel or its settings reject an operation), `InvalidArgument`,
 *   `Conflict` (a declared port is in use), `Canceled`
 */
export async function startLink(spawned: SpawnedLink, { config, signal }: StartLinkOptions): Promise<Link> {
  const { child, lines } = spawned;
  const kill = () => child.kill("SIGKILL");
  const stop = signal && onAbort(signal, kill);
  try {
    if (isAborted(signal)) throw canceled();
    lines.write(wireConfig(config));
    const [netnsPath] = await Promise.all([lines.netns, lines.ready]);
    return new Link(spawned, netnsPath, config.socket);
  } catch (error) {
    kill();
    await lines.closed;
    throw isAborted(signal) ? canceled() : RametError.from(error, "starting the sandbox's network failed");
  } finally {
    stop?.();
  }
}

/** Starts `ramet-link net`, which exits with this process. `startLink` reports a failure. */
export function spawnLink({ binary, log }: SpawnLinkOptions): SpawnedLink {
  const child = spawn(binary, ["net"], { stdio: ["pipe", "pipe", "pipe"] });
  return { child, lines: new LinkLines(child, log) };
}

/** A running link: the network of one sandbox. */
export class Link {
  readonly pid: number;
  /** Path of the sandbox's network namespace, for the OCI spec. Valid while link runs. */
  readonly netnsPath: string;
  /** Resolves with the reason when link has exited. */
  readonly closed: Promise<string>;
  readonly #lines: LinkLines;
  readonly #socket: string;

  constructor({ child, lines }: SpawnedLink, netnsPath: string, socket: string) {
    this.pid = child.pid ?? 0;
    this.netnsPath = netnsPath;
    this.closed = lines.closed;
    this.#lines = lines;
    this.#socket = socket;
  }

  /** Restores the address and route of the sandbox's interface, which gVisor removes. Call it before a sandbox is created. */
  async prepare(): Promise<void> {
    await this.#lines.request({ op: "prepare" });
  }

  /** Opens or closes the network for ingress and egress. Closing it ends all connections but the cell's own. */
  async setGate(open: boolean): Promise<void> {
    await this.#lines.request({ op: "gate", open });
  }

  /** @throws RametError `InvalidArgument` that names the invalid rule. The previous policy then stays in effect. */
  async setEgress(policy: EgressPolicy): Promise<void> {
    await this.#lines.request({ op: "egress", policy });
  }

  /**
   * Replaces the credentials that link adds to requests.
   * @param roots PEM of the certificates that link trusts at destinations
   * @returns PEM of the CA that the sandbox must trust; undefined if TLS passes untouched
   * @throws RametError `InvalidArgument`, which names no value
   */
  async setCredentials({ tls, ...given }: LinkCredentials, roots: string): Promise<string | undefined> {
    const credentials = { ...given, ...(tls && { tls: { seed: tls.seed, roots } }) };
    return (await this.#lines.request({ op: "credentials", credentials })).certificate;
  }

  /** Reports the traffic that the sandbox has sent since link started, and the refusals. */
  async report(): Promise<EgressReport> {
    const { report } = await this.#lines.request({ op: "report" });
    if (report === undefined) throw new RametError("Internal", "link sent no egress report");
    return report;
  }

  /**
   * Opens a raw stream to a TCP port of the sandbox.
   * @throws RametError `Unavailable` if nothing listens there, `SandboxNotReady` if the gate is closed, `Forbidden`
   */
  dial(port: number, options?: DialOptions): Promise<Duplex> {
    return dialLink(this.#socket, port, options);
  }

  /** Stops link, and with it the sandbox's network. Can be repeated. */
  async stop(): Promise<void> {
    this.#lines.end();
    await this.#lines.closed;
  }
}

function wireConfig(config: LinkConfig): object {
  const { ports, refuse = [], ...rest } = config;
  return { v: 1, ...rest, ports: ports.map((containerPort) => ({ containerPort })), refuse };
}

function canceled(): RametError {
  return new RametError("Canceled", "starting the sandbox's network was aborted");
}
