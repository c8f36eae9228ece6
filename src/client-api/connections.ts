import type { Socket } from "node:net";
import type { Clock } from "../base/clock.ts";
import { limitedAddress, Slots } from "../base/slots.ts";

/** As many of one address as a gateway has, because gateways are clients too. */
const mostConnections = { all: 5_000, ofAddress: 2_500, ofStrangers: 1_000 };
/** A stranger sends the headers of its first request within this time. */
const strangerMilliseconds = 10_000;

interface Stranger {
  socket: Socket;
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
  readonly #strangers = new Map<Socket, Stranger>();
  /** Those of each address, oldest first. A flood of connections makes the server look for the oldest one each time. */
  readonly #strangersOf = new Map<string, Set<Stranger>>();
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
    const stranger = { socket, address, cancel, release };
    this.#strangers.set(socket, stranger);
    const others = this.#strangersOf.get(address) ?? new Set();
    this.#strangersOf.set(address, others.add(stranger));
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
    const stranger = this.#strangers.get(socket);
    if (stranger === undefined) return;
    stranger.cancel();
    this.#strangers.delete(socket);
    const others = this.#strangersOf.get(stranger.address);
    others?.delete(stranger);
    if (others?.size === 0) this.#strangersOf.delete(stranger.address);
  }

  isStranger(socket: Socket): boolean {
    return this.#strangers.has(socket);
  }

  #closeStranger(): void {
    let most = new Set<Stranger>();
    for (const strangers of this.#strangersOf.values()) if (strangers.size > most.size) most = strangers;
    const [oldest] = most;
    if (oldest === undefined) return;
    oldest.socket.destroy();
    this.authenticated(oldest.socket);
    // The connection reports its end later.
    oldest.release();
  }
}
