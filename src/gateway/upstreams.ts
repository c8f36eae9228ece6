import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect, type TLSSocket } from "node:tls";
import { Agent, type Dispatcher } from "undici";
import { requestHost } from "../api/names/request-host.ts";
import { guestClientPort } from "../api/wire/cell-api.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError, textOfError } from "../base/errors.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import { callGuest } from "../cell/client/guest-http.ts";
import { isEntrance, type RoutedSandbox } from "./routed-sandbox.ts";
import { type Clock, systemClock } from "../base/clock.ts";

/** The destination of an authorized request: a port of a ready sandbox. */
export interface Route {
  sandbox: RoutedSandbox;
  /** The sandbox in messages for the client. */
  title: string;
  port: number;
  /** The guest's access token, if the gateway sends it. The client must not get it. */
  guestToken?: string;
  /** The path with its query. @default the client's */
  url?: string;
}

/** The header `Host` that the sandbox wants instead of the client's; undefined for the ports of the guest. */
export function hostFor({ sandbox: { requestHost: text }, port }: Route): string | undefined {
  return text === undefined || isEntrance(port) ? undefined : requestHost(text, port);
}

/** Whether the program at the port serves HTTPS. The guest never does. */
function isHttps({ httpsPorts }: RoutedSandbox, port: number): boolean {
  return httpsPorts.includes(port) && !isEntrance(port);
}

/** Connections to sandboxes through their cells. Connections for requests are pooled. */
export class Upstreams {
  readonly dispatcher: Dispatcher;
  readonly #cells: Pick<CellClient, "dial">;
  /** The open connections to each sandbox, with the cell that they lead through. */
  readonly #open = new Map<string, Map<Socket, Cell>>();

  /** @param byUid returns the current state of a sandbox */
  constructor(cells: Pick<CellClient, "dial">, byUid: (uid: string) => RoutedSandbox | undefined) {
    this.#cells = cells;
    this.dispatcher = new Agent({
      // The program and its client decide how long a response takes.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: ({ hostname, port, protocol }, done) => {
        const sandbox = byUid(hostname);
        const number = port === "" ? (defaultPorts[protocol] ?? 80) : Number(port);
        const dialled = sandbox && this.#connect(sandbox, number, protocol === "https:");
        (dialled ?? Promise.reject(deleted(hostname))).then(
          (socket) => {
            done(null, socket);
          },
          (error: unknown) => {
            done(RametError.from(error), null);
          },
        );
      },
    });
  }

  /** The dispatcher's name for a sandbox port. */
  originOf({ sandbox, port }: Route): string {
    return `${isHttps(sandbox, port) ? "https" : "http"}://${sandbox.metadata.uid}:${port}`;
  }

  /** Opens a connection. @throws RametError `SandboxUnreachable` or `Timeout` */
  async dial(route: Route, options: { alpn?: string[]; signal?: AbortSignal } = {}): Promise<Socket> {
    const { sandbox, port } = route;
    try {
      return await this.#connect(sandbox, port, isHttps(sandbox, port), options);
    } catch (error) {
      throw unreachable(route, RametError.from(error));
    }
  }

  /** Whether the guest answers within a second. The network of a sandbox that is being captured still accepts connections. */
  async answers(sandbox: RoutedSandbox, signal: AbortSignal): Promise<boolean> {
    const dial = () => this.#connect(sandbox, guestClientPort, false, { signal });
    const call = { method: "GET" as const, path: "/health", responseMilliseconds: 1_000, signal };
    const answer = await callGuest(dial, call).catch(() => undefined);
    answer?.destroy();
    return answer !== undefined;
  }

  /**
   * Closes the connections to earlier Pods of a sandbox. Those to a node that is silent seem open for a quarter of an hour, and those to
   * a node without the API server lead to a copy that nobody wants any more.
   */
  closeEarlier(sandbox: RoutedSandbox, isDeleted: boolean): void {
    for (const [socket, cell] of this.#open.get(sandbox.metadata.uid) ?? [])
      if (isDeleted || isOther(sandbox, cell)) socket.destroy();
  }

  async #connect(
    { metadata, ip = "", cellKey }: RoutedSandbox,
    port: number,
    secure: boolean,
    { alpn = ["http/1.1"], signal }: { alpn?: string[]; signal?: AbortSignal } = {},
  ): Promise<Socket> {
    const socket = asSocket(await this.#cells.dial({ ip, sandboxUid: metadata.uid, cellKey }, port, signal));
    this.#track(socket, metadata.uid, { ip, cellKey });
    return secure ? startTls(socket, alpn) : socket;
  }

  #track(socket: Socket, uid: string, cell: Cell): void {
    const open = this.#open.get(uid) ?? new Map<Socket, Cell>();
    this.#open.set(uid, open.set(socket, cell));
    socket.once("close", () => {
      open.delete(socket);
      if (open.size === 0 && this.#open.get(uid) === open) this.#open.delete(uid);
    });
  }

  async close(): Promise<void> {
    await this.dispatcher.destroy();
  }
}

interface Cell {
  ip?: string | undefined;
  cellKey?: string | undefined;
}

/** Whether a sandbox has another cell now. One without a Pod has none, and its last one ends its connections. */
function isOther({ ip, cellKey }: RoutedSandbox, cell: Cell): boolean {
  if (ip === undefined) return false;
  return ip !== cell.ip || (cellKey !== undefined && cell.cellKey !== undefined && cellKey !== cell.cellKey);
}

/** The dispatcher leaves out the default port of a scheme. */
const defaultPorts: Record<string, number> = { "http:": 80, "https:": 443 };

/** Returns the error of a connection that could not be opened, for clients. */
export function unreachable({ title, port }: Pick<Route, "title" | "port">, cause: RametError): RametError {
  if (cause.code === "Timeout" || cause.code === "Canceled" || cause.code === "SandboxUnreachable") return cause;
  return new RametError("SandboxUnreachable", `Cannot connect to port ${port} of the ${title}: ${cause.message}`, {
    cause,
    retryable: cause.code !== "Unauthorized",
    hint: hints[cause.code] ?? "Check that a program in the sandbox listens on this port",
  });
}

/** The error for a program whose response cannot be used. */
export function invalidResponse({ title, port }: Pick<Route, "title" | "port">, cause: unknown): RametError {
  const why = `The ${title} sent no valid response on port ${port}: ${textOfError(cause)}`;
  return new RametError("SandboxUnreachable", why, { cause, retryable: true });
}

const hints: Partial<Record<ErrorCode, string>> = {
  Unauthorized:
    "Pause and resume the sandbox, or create it again: its cell does not have the current key of the gateway",
  CellNotProven: "Repeat the request later: the sandbox's Pod is gone, and another Pod has its address",
};

function deleted(uid: string): RametError {
  return new RametError("SandboxUnreachable", `The sandbox ${uid} was not found: it was deleted`);
}

/** Node passes the socket of an upgraded connection as a stream. */
function asSocket(stream: Duplex): Socket {
  if (stream instanceof Socket) return stream;
  throw new RametError("Internal", "An upgraded connection is not a socket");
}

/**
 * Starts TLS with a program in a sandbox. Its certificate is not verified: the connection through the cell already leads to this
 * sandbox and no other.
 * @param alpn the protocols that the gateway speaks
 * @throws RametError `SandboxUnreachable`
 */
function startTls(socket: Socket, alpn: string[], clock: Clock = systemClock): Promise<TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const secure = connect({ socket, ALPNProtocols: alpn, rejectUnauthorized: false, minVersion: "TLSv1.2" });
  const fail = (cause: Error): void => {
    socket.destroy();
    secure.destroy();
    reject(
      new RametError("SandboxUnreachable", `The program in the sandbox does not serve HTTPS: ${cause.message}`, {
        cause,
        retryable: true,
        hint: "Check that it serves HTTPS on this port, or remove the port from httpsPorts",
      }),
    );
  };
  const onClose = (): void => {
    fail(new Error("it closed the connection"));
  };
  const cancel = clock.schedule(handshakeMilliseconds, () => {
    fail(new Error(`it did not answer within ${handshakeMilliseconds / 1000} s`));
  });
  secure.once("error", fail).once("close", onClose);
  secure.once("secureConnect", () => {
    cancel();
    secure.off("error", fail).off("close", onClose);
    resolve(secure);
  });
  return promise.finally(cancel);
}

const handshakeMilliseconds = 10_000;
