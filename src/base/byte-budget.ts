import { RametError } from "./errors.ts";
import { Slots } from "./slots.ts";

/** Who bytes are held for. */
export interface Holder {
  /** The address of the client, as `limitedAddress` returns it. */
  address: string;
  /** The API key and its own limit. @default the client has none */
  key?: { name: string; bytes: number } | undefined;
}

/** How many bytes a server holds for all clients together, and for those of one address. */
export interface ByteLimits {
  all: number;
  ofAddress: number;
}

/** Limits the bytes that a server holds for its clients: bodies and answers while they are collected, and queues. */
export class ByteBudget {
  readonly #limits: ByteLimits;
  readonly #all: Slots;
  readonly #ofAddress: Slots;
  readonly #ofKey = new Slots(Infinity);

  constructor(limits: ByteLimits) {
    this.#limits = limits;
    this.#all = new Slots(limits.all);
    this.#ofAddress = new Slots(limits.ofAddress);
  }

  /** Begins a request or a connection, which holds nothing yet. */
  open(holder: Holder): HeldBytes {
    return new HeldBytes((bytes, isHeld) => this.#take(holder, bytes, isHeld));
  }

  /**
   * @param isHeld whether as many are held already: no limit counts then
   * @throws RametError as `HeldBytes.hold`
   */
  #take({ address, key }: Holder, weight: number, isHeld: boolean): () => void {
    const take = { weight, ...(isHeld && { limit: Infinity }) };
    const isTooLarge = weight > Math.min(key?.bytes ?? Infinity, this.#limits.ofAddress, this.#limits.all);
    if (isTooLarge && !isHeld)
      throw new RametError("InvalidArgument", `The request takes ${weight} bytes of memory, and may take fewer`, {
        hint: "Send less in one request",
      });
    // Many keys come through one gateway. A key has its own limit instead of that of the address.
    const own = key ? this.#ofKey.take(key.name, { limit: key.bytes, ...take }) : this.#ofAddress.take(address, take);
    if (own === undefined) throw refused("TooManyRequests", key ? `The API key ${key.name}` : "The client");
    const release = this.#all.take("", take);
    if (release === undefined) own();
    else
      return () => {
        own();
        release();
      };
    throw refused("Unavailable", "The server");
  }
}

function refused(code: "TooManyRequests" | "Unavailable", who: string): RametError {
  return new RametError(code, `${who} has too many bytes in flight`, {
    hint: "Repeat the request later, with fewer others at the same time",
    retryable: true,
  });
}

/** The bytes that are held for one request or connection. */
export class HeldBytes {
  readonly #take: (bytes: number, isHeld: boolean) => () => void;
  #bytes = 0;
  #release = (): void => undefined;
  #isOver = false;

  constructor(take: (bytes: number, isHeld: boolean) => () => void) {
    this.#take = take;
  }

  /**
   * Changes how many bytes are held. Fewer ones always fit. Nothing is held after the end.
   * @throws RametError `TooManyRequests`; `Unavailable`; `InvalidArgument` if it could never hold as many
   */
  hold(bytes: number): void {
    if (this.#isOver) return;
    this.#release();
    try {
      this.#release = this.#take(bytes, bytes <= this.#bytes);
      this.#bytes = bytes;
    } catch (error) {
      this.#release = this.#take(this.#bytes, true);
      throw error;
    }
  }

  /** Holds more bytes. @throws RametError as `hold` */
  add(bytes: number): void {
    this.hold(this.#bytes + bytes);
  }

  end(): void {
    this.#isOver = true;
    this.#release();
    this.#release = () => undefined;
  }
}
