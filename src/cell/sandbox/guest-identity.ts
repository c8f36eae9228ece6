import { isDeepStrictEqual } from "node:util";
import type { Identity } from "../../api/cell/cell-api.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { furthestGeneration, handover } from "./handover.ts";

export interface GiveOptions {
  /** Whether the guest learns that it is a clone. */
  clone: boolean;
  /** How each call to the guest is made. @default once */
  via?: <T>(what: "guest" | "handover", call: () => Promise<T>) => Promise<T>;
}

/** Whom the guest knows itself to be, and how often it has been given an identity. */
export class GuestIdentity {
  #identity: Identity | undefined;
  #generation: number | undefined;

  /** How often the guest has been given an identity; not known while it takes one, and until it said that it has. */
  get generation(): number | undefined {
    return this.#generation;
  }

  /** What the guest asks callers for; absent before it has an identity, and while it takes one. */
  get accessToken(): string | undefined {
    return this.#identity?.accessToken;
  }

  /** Whether the guest has said that it has taken this one. */
  has(identity: Identity): boolean {
    return isDeepStrictEqual(identity, this.#identity);
  }

  /** Another guest answers from now on. @param generation how often its memory was given an identity, where that is known */
  begin(generation: number | undefined): void {
    this.#identity = undefined;
    this.#generation = generation;
  }

  /** Gives the guest its next identity, and answers its generation. @throws RametError as `handover` */
  async give(guest: GuestControl, identity: Identity, { clone, via = once }: GiveOptions): Promise<number> {
    const before = this.#generation ?? (await via("guest", () => furthestGeneration(guest)));
    // Whether it has arrived is not certain before the guest has said so.
    this.#identity = undefined;
    this.#generation = undefined;
    const generation = await via("handover", () => handover(guest, { identity, clone, before }));
    this.#identity = identity;
    this.#generation = generation;
    return generation;
  }
}

function once<T>(_what: string, call: () => Promise<T>): Promise<T> {
  return call();
}
