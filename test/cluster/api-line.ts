import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** A proxy to an API server that can hold back requests while responses and events still arrive. */
export class ApiLine {
  readonly #server: Server;
  readonly #callers = new Set<Socket>();
  #held = false;

  private constructor(target: URL) {
    this.#server = createServer((caller) => {
      this.#join(caller, connect(Number(target.port), target.hostname));
    });
  }

  static async open(target: string): Promise<ApiLine> {
    const line = new ApiLine(new URL(target));
    line.#server.listen(0, "127.0.0.1");
    await once(line.#server, "listening");
    return line;
  }

  /** URL to use instead of the API server's. */
  get server(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Holds back all further requests. */
  hold(): void {
    this.#held = true;
    for (const caller of this.#callers) caller.pause();
  }

  release(): void {
    this.#held = false;
    for (const caller of this.#callers) caller.resume();
  }

  async close(): Promise<void> {
    for (const caller of this.#callers) caller.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(caller: Socket, server: Socket): void {
    this.#callers.add(caller);
    caller.on("data", (bytes) => server.write(bytes));
    server.on("data", (bytes) => caller.write(bytes));
    for (const [one, other] of [
      [caller, server],
      [server, caller],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#callers.delete(caller);
        other.destroy();
      });
    }
    if (this.#held) caller.pause();
  }
}
