import type { Server } from "node:http";

/** The responses that servers have begun and not finished. */
export class OpenResponses {
  #count = 0;
  readonly #waiting: (() => void)[] = [];

  /** Counts the responses of a server. */
  follow(server: Server): void {
    server.on("request", (_, response) => {
      this.#count++;
      response.once("close", () => {
        this.#count--;
        if (this.#count === 0) for (const done of this.#waiting.splice(0)) done();
      });
    });
  }

  /** Resolves as soon as no response is open: each was sent, or its client has left. */
  async finished(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
