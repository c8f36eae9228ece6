import type { Socket } from "node:net";
import { ByteBudget, type HeldBytes } from "../../base/byte-budget.ts";
import { RametError } from "../../base/errors.ts";
import { limitedAddress, Slots } from "../../base/slots.ts";
import type { Caller } from "../keys/callers.ts";

export type LimitedKey = Pick<Caller, "key" | "limits">;

/** A gateway is one address. */
const mostBytes = { all: 160 * 1024 ** 2, ofAddress: 128 * 1024 ** 2 };

/** Limits the requests of a key that are in progress, and the bytes that are held for all of them. */
export class ClientLimits {
  readonly #budget = new ByteBudget(mostBytes);
  readonly #requests = new Slots(Infinity);

  /**
   * Begins a request or a terminal.
   * @param bytes held from its beginning @returns a function for its end
   * @throws RametError `TooManyRequests`; `Unavailable` if the server holds too much for all clients
   */
  enter({ remoteAddress = "unknown" }: Socket, from: LimitedKey | undefined, bytes: number): Entered {
    const address = limitedAddress(remoteAddress);
    const key = from && { name: from.key, bytes: from.limits.bytesInFlight };
    const leave = from ? this.#requests.take(from.key, { limit: from.limits.concurrentRequests }) : () => undefined;
    if (leave === undefined)
      throw new RametError("TooManyRequests", `The API key ${from?.key ?? ""} has too many requests in progress`, {
        hint: "Wait for earlier ones, or raise limits.concurrentRequests of the ApiKey",
        retryable: true,
      });
    const held = this.#budget.open({ address, key });
    const release = (): void => {
      held.end();
      leave();
    };
    try {
      held.hold(bytes);
    } catch (error) {
      release();
      throw error;
    }
    return { held, release };
  }
}

interface Entered {
  held: HeldBytes;
  release: () => void;
}
