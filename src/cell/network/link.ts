import { spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import type { CellConfig } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { dialLink, type DialOptions } from "./link-dial.ts";
import { LinkLines } from "./link-lines.ts";

/** What may leave a sandbox: deny rules first, then allow rules, then the default (docs/reference/network.md). */
export type EgressPolicy = CellConfig["egress"];

export interface LinkConfig {
  /** Path of the Unix socket that link makes for connections to the sandbox: at most 107 bytes. */
  socket: string;
  /** Container ports that are reachable at `listen` too, while the gate is open. */
  ports: readonly number[];
  /** IP address outside of the sandbox, or empty for none. */
  listen: string;
  egress: EgressPolicy;
  /** Resolvers, each an IP address with an optional port. Empty: those of this machine or Pod. */
  dns: { upstreams: readonly string[] };
  /** IPv4 ranges of the cluster, which a rule must name to be reachable. @default none */
  refuse?: readonly string[];
}

export interface StartLinkOptions {
  /** Path of `ramet-link`. */
  binary: string;
  config: LinkConfig;
  /** Receives the lines that link writes for the operator, such as a refused connection. */
  log?: (line: string) => void;
  /** Gives up the start. A link that has started is ended by `stop`. */
  signal?: AbortSignal;
}

/** A running link: the network of one sandbox. */
export interface Link {
  readonly pid: number;
  /** Path of the sandbox's network namespace, for the OCI spec; valid as long as link runs. */
  readonly netnsPath: string;
  /** Gives the sandbox's interface its address and route again, which gVisor takes away; before each sandbox is made. */
  prepare(): Promise<void>;
  /** Opens or shuts the network, both ways. Shutting cuts what is carried, except for the cell's own connections. */
  setGate(open: boolean): Promise<void>;
  /** @throws RametError `InvalidArgument`, naming the rule that is wrong; the policy before it stays. */
  setEgress(policy: EgressPolicy): Promise<void>;
  /**
   * A raw stream to a TCP port of the sandbox.
   * @throws RametError `Unavailable` when nothing listens there, `SandboxNotReady` when the gate is shut, `Forbidden`
   */
  dial(port: number, options?: DialOptions): Promise<Duplex>;
  /** Resolves when link has ended, for whatever reason, with that reason. */
  readonly closed: Promise<string>;
  /** Ends link, and with it the sandbox's network. Can be called again. */
  stop(): Promise<void>;
}

/**
 * Starts `ramet-link net` and waits until the sandbox's network stands; the gate is shut then.
 *
 * @throws RametError `ToolMissing`, `HostUnsupported` (the kernel or its settings refuse something), `InvalidArgument`,
 *   `Conflict` (a declared port is in use), `Canceled`
 */
export async function startLink({ binary, config, log, signal }: StartLinkOptions): Promise<Link> {
  if (isAborted(signal)) throw canceled();
  const child = spawn(binary, ["net"], { stdio: ["pipe", "pipe", "pipe"] });
  const lines = new LinkLines(child, log);
  const kill = (): void => {
    child.kill("SIGKILL");
  };
  signal?.addEventListener("abort", kill, { once: true });
  try {
    lines.write(wireConfig(config));
    const [netnsPath] = await Promise.all([lines.netns, lines.ready]);
    return runningLink(child.pid ?? 0, netnsPath, lines, config.socket);
  } catch (error) {
    kill();
    await lines.closed;
    throw isAborted(signal) ? canceled() : RametError.from(error, "starting the sandbox's network failed");
  } finally {
    signal?.removeEventListener("abort", kill);
  }
}

function runningLink(pid: number, netnsPath: string, lines: LinkLines, socket: string): Link {
  return {
    pid,
    netnsPath,
    prepare: () => lines.request({ op: "prepare" }),
    setGate: (open) => lines.request({ op: "gate", open }),
    setEgress: (policy) => lines.request({ op: "egress", policy }),
    dial: (port, dialOptions) => dialLink(socket, port, dialOptions),
    closed: lines.closed,
    stop: async () => {
      lines.end();
      await lines.closed;
    },
  };
}

function wireConfig(config: LinkConfig): object {
  const { ports, refuse = [], ...rest } = config;
  return { v: 1, ...rest, ports: ports.map((containerPort) => ({ containerPort })), refuse };
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function canceled(): RametError {
  return new RametError("Canceled", "starting the sandbox's network was given up");
}
