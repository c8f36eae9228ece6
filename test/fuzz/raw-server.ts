import { once } from "node:events";
import { type AddressInfo, connect, createServer, type ListenOptions, type Server, type Socket } from "node:net";

/** A server that answers the first bytes of each connection with these bytes, and then closes it. It stands in for a hostile peer. */
export class RawServer {
  /** Chosen by each input. */
  answer: Buffer = Buffer.alloc(0);
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket
        .on("error", () => undefined)
        .once("close", () => this.#sockets.delete(socket))
        .once("data", () => socket.end(this.answer));
    });
  }

  static async open(at: ListenOptions): Promise<RawServer> {
    const server = new RawServer();
    server.#server.listen(at);
    await once(server.#server, "listening");
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  dial = async (): Promise<Socket> => {
    const socket = connect(this.port, "127.0.0.1");
    await once(socket, "connect");
    return socket;
  };

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

/** Far longer than a server on this machine needs to answer. It then waits for more bytes, which never come. */
const patienceMilliseconds = 20;

/** Sends bytes on a connection of their own. @returns what arrived until there was an answer, or the end of patience */
export async function exchange(to: { host: string; port: number }, parts: readonly Buffer[]): Promise<string> {
  const socket = connect(to);
  let received = "";
  const done = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, patienceMilliseconds);
    socket
      .on("error", () => undefined)
      .on("data", (bytes: Buffer) => {
        received += bytes.toString("latin1");
      })
      .once("close", () => {
        clearTimeout(timer);
        resolve();
      });
  });
  for (const part of parts) socket.write(part);
  await done;
  socket.destroy();
  return received;
}

/** Sends an honest request. @returns the whole answer, which must end the connection */
export async function honestExchange(to: { host: string; port: number }, request: string): Promise<string> {
  const socket = connect(to);
  let received = "";
  socket.on("data", (bytes: Buffer) => {
    received += bytes.toString("latin1");
  });
  socket.write(request);
  await once(socket, "close");
  return received;
}
