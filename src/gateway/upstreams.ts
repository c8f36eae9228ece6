import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Agent, type Dispatcher } from "undici";
import { RametError } from "../base/errors.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";

/** Where a request goes: a port of a sandbox that is ready. */
export interface Route {
  sandbox: RoutedSandbox;
  port: number;
}

/** Connections into sandboxes, through their cells. Those for requests are kept and used again. */
export class Upstreams {
  readonly dispatcher: Dispatcher;
  readonly #cells: Pick<CellClient, "dial">;

  /** @param byUid the sandbox as it is now */
  constructor(cells: Pick<CellClient, "dial">, byUid: (uid: string) => RoutedSandbox | undefined) {
    this.#cells = cells;
    this.dispatcher = new Agent({
      // What a program takes for an answer, and whether it ever ends, is the program's and its client's to say.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: ({ hostname, port }, done) => {
        const sandbox = byUid(hostname);
        const route = sandbox && { sandbox, port: port === "" ? 80 : Number(port) };
        const dialled = route === undefined ? Promise.reject(gone(hostname)) : this.dial(route);
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

  /** What stands for a port of a sandbox with the dispatcher. */
  originOf({ sandbox, port }: Route): string {
    return `http://${sandbox.metadata.uid}:${port}`;
  }

  /** A new connection. @throws RametError `SandboxUnreachable` or `Timeout` */
  async dial({ sandbox: { metadata, ip = "" }, port }: Route, signal?: AbortSignal): Promise<Socket> {
    try {
      return asSocket(await this.#cells.dial({ ip, sandboxUid: metadata.uid }, port, signal));
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
  const isStranger = cause.code === "Unauthorized";
  return new RametError(
    "SandboxUnreachable",
    `The port ${port} of the sandbox ${name} in ${namespace} cannot be reached: ${cause.message}`,
    {
      cause,
      retryable: !isStranger,
      hint: isStranger
        ? "Its cell was made before the cluster had this gateway's key: pause and resume the sandbox, or make it anew"
        : "See that a program in the sandbox listens there, on 0.0.0.0 and not on 127.0.0.1",
    },
  );
}

function gone(uid: string): RametError {
  return new RametError("SandboxUnreachable", `The sandbox ${uid} is not there any more`);
}

/** The socket that Node hands out as a stream when a connection is upgraded. */
export function asSocket(stream: Duplex): Socket {
  if (stream instanceof Socket) return stream;
  throw new RametError("Internal", "An upgraded connection is no socket");
}
