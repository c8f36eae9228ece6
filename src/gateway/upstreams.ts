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
        const route = sandbox && { sandbox, port: port === "" ? 80 : Number(port) };
        const dialled = route === undefined ? Promise.reject(deleted(hostname)) : this.dial(route);
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
  async dial({ sandbox: { metadata, ip = "", cellKey }, port }: Route, signal?: AbortSignal): Promise<Socket> {
    try {
      return asSocket(await this.#cells.dial({ ip, sandboxUid: metadata.uid, cellKey }, port, signal));
    } catch (error) {
      throw unreachable(metadata, port, RametError.from(error));
    }
  }

  async close(): Promise<void> {
    await this.dispatcher.destroy();
  }
}

function unreachable({ namespace, name }: RoutedSandbox["metadata"], port: number, cause: RametError): RametError {
  if (cause.code === "Timeout" || cause.code === "Canceled") return cause;
  return new RametError(
    "SandboxUnreachable",
    `Cannot connect to port ${port} of the sandbox ${name} in ${namespace}: ${cause.message}`,
    {
      cause,
      retryable: cause.code !== "Unauthorized",
      hint: hints[cause.code] ?? "Check that a program in the sandbox listens on this port",
    },
  );
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
