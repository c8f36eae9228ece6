import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Agent, type Dispatcher } from "undici";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";

/** The destination of an authorized request: a port of a ready sandbox. */
export interface Route {
  sandbox: RoutedSandbox;
  /** The sandbox in messages for the client. */
  title: string;
  port: number;
  /** The guest's access token, if the gateway sends it. The client must not get it. */
  guestToken?: string;
}

/** Connections to sandboxes through their cells. Connections for requests are pooled. */
export class Upstreams {
  readonly dispatcher: Dispatcher;
  readonly #cells: Pick<CellClient, "dial">;

  /** @param byUid returns the current state of a sandbox */
  constructor(cells: Pick<CellClient, "dial">, byUid: (uid: string) => RoutedSandbox | undefined) {
    this.#cells = cells;
    this.dispatcher = new Agent({
      // The program and its client decide how long a response takes.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: ({ hostname, port }, done) => {
        const sandbox = byUid(hostname);
        const dialled =
          sandbox === undefined
            ? Promise.reject(deleted(hostname))
            : this.#connect(sandbox, port === "" ? 80 : Number(port));
        dialled.then(
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
    return `http://${sandbox.metadata.uid}:${port}`;
  }

  /** Opens a connection. @throws RametError `SandboxUnreachable` or `Timeout` */
  async dial(route: Route, signal?: AbortSignal): Promise<Socket> {
    try {
      return await this.#connect(route.sandbox, route.port, signal);
    } catch (error) {
      throw unreachable(route, RametError.from(error));
    }
  }

  async #connect({ metadata, ip = "", cellKey }: RoutedSandbox, port: number, signal?: AbortSignal): Promise<Socket> {
    return asSocket(await this.#cells.dial({ ip, sandboxUid: metadata.uid, cellKey }, port, signal));
  }

  async close(): Promise<void> {
    await this.dispatcher.destroy();
  }
}

/** Returns the error of a connection that could not be opened, for clients. */
export function unreachable({ title, port }: Pick<Route, "title" | "port">, cause: RametError): RametError {
  if (cause.code === "Timeout" || cause.code === "Canceled" || cause.code === "SandboxUnreachable") return cause;
  return new RametError("SandboxUnreachable", `Cannot connect to port ${port} of the ${title}: ${cause.message}`, {
    cause,
    retryable: cause.code !== "Unauthorized",
    hint: hints[cause.code] ?? "Check that a program in the sandbox listens on this port",
  });
}

const hints: Partial<Record<ErrorCode, string>> = {
  Unauthorized:
    "Pause and resume the sandbox, or create it again: its cell does not have the current key of the gateway",
  CellNotProven: "Repeat the request later: the sandbox's Pod is gone, and another Pod has its address",
};

function deleted(uid: string): RametError {
  return new RametError("SandboxUnreachable", `The sandbox ${uid} was deleted`);
}

/** Node passes the socket of an upgraded connection as a stream. */
function asSocket(stream: Duplex): Socket {
  if (stream instanceof Socket) return stream;
  throw new RametError("Internal", "An upgraded connection is not a socket");
}
