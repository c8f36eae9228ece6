import type { Socket } from "node:net";
import type { Clock } from "../base/clock.ts";
import { limitedAddress, Slots } from "../base/slots.ts";

/** As many of one address as a gateway has, because gateways are clients too. */
const mostConnections = { all: 5_000, ofAddress: 2_500, ofStrangers: 1_000 };
/** A stranger sends the headers of its first request within this time. */
const strangerMilliseconds = 10_000;

interface Stranger {
  address: string;
  /** Ends the time limit. */
  cancel: () => void;
  /** Gives its place back. */
  release: () => void;
}

/**
 * The connections of a server. One is a stranger's until a request on it was authenticated. Strangers have a small share and a short
 * time. When there are too many, the address that has most of them loses its oldest one, so other clients can always connect.
 */
export class Connections {
  readonly #clock: Clock;
  readonly #ofAddress = new Slots(mostConnections.ofAddress);
  /** Oldest first. */
  readonly #strangers = new Map<Socket, Stranger>();
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Accepts a new connection, or closes it if its address or the server has too many. */
  add(socket: Socket): void {
    const address = limitedAddress(socket.remoteAddress ?? "unknown");
    if (this.#count >= mostConnections.all || this.#strangers.size >= mostConnections.ofStrangers)
      this.#closeStranger();
    const giveBack = this.#count < mostConnections.all ? this.#ofAddress.take(address) : undefined;
    if (giveBack === undefined) {
      socket.destroy();
      return;
    }
    this.#count++;
    let isOpen = true;
    const release = (): void => {
      if (!isOpen) return;
      isOpen = false;
      this.#count--;
      giveBack();
    };
    const cancel = this.#clock.schedule(strangerMilliseconds, () => socket.destroy());
    this.#strangers.set(socket, { address, cancel, release });
    socket.once("close", () => {
      this.authenticated(socket);
      release();
    });
  }

  /** A stranger has sent the headers of a request. Other limits apply to the rest of it. */
  asked(socket: Socket): void {
    this.#strangers.get(socket)?.cancel();
  }

  authenticated(socket: Socket): void {
    this.asked(socket);
    this.#strangers.delete(socket);
  }

  isStranger(socket: Socket): boolean {
    return this.#strangers.has(socket);
  }

  #closeStranger(): void {
    const counts = new Map<string, number>();
    for (const { address } of this.#strangers.values()) counts.set(address, (counts.get(address) ?? 0) + 1);
    const most = Math.max(...counts.values());
    for (const [socket, { address, release }] of this.#strangers) {
      if (counts.get(address) !== most) continue;
      socket.destroy();
      this.authenticated(socket);
      // The connection reports its end later.
      release();
      return;
    }
  }
}
