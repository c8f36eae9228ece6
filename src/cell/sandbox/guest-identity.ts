import { availableParallelism, totalmem } from "node:os";
import { isDeepStrictEqual } from "node:util";
import type { Capacity } from "../../api/schema/metadata.ts";
import type { ContainerSpec, Identity } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { furthestGeneration, handover } from "./handover.ts";

export interface GiveOptions {
  clone: boolean;
  /** Wraps each call to the guest, for example to retry it. @default one attempt */
  via?: <T>(what: "guest" | "handover", call: () => Promise<T>) => Promise<T>;
}

/** The identity of the guest, and its generation: how many identities it has had. */
export class GuestIdentity {
  readonly #clock: Clock;
  readonly #capacity: Capacity;
  #identity: Identity | undefined;
  #generation: number | undefined;

  /** @param capacity of the sandbox, for the guest's metrics */
  constructor(clock: Clock, capacity: Capacity) {
    this.#clock = clock;
    this.#capacity = capacity;
  }

  /** How many identities the guest has had. Undefined while it is getting one and until it has confirmed it. */
  get generation(): number | undefined {
    return this.#generation;
  }

  /** The token that the guest requires from clients. Undefined before it has an identity and while it is getting one. */
  get accessToken(): string | undefined {
    return this.#identity?.accessToken;
  }

  has(identity: Identity): boolean {
    return isDeepStrictEqual(identity, this.#identity);
  }

  /** Call it when another guest has taken over. @param generation of its memory, if known */
  reset(generation: number | undefined): void {
    this.#identity = undefined;
    this.#generation = generation;
  }

  /** Gives the guest its next identity and returns its generation. @throws RametError as `handover` */
  async give(guest: GuestControl, identity: Identity, { clone, via = once }: GiveOptions): Promise<number> {
    const before = this.#generation ?? (await via("guest", () => furthestGeneration(guest)));
    // Unknown until the guest has confirmed the new identity.
    this.#identity = undefined;
    this.#generation = undefined;
    const generation = await via("handover", () =>
      handover(guest, { identity, limits: this.#capacity, clone, before, now: this.#clock.now() }),
    );
    this.#identity = identity;
    this.#generation = generation;
    return generation;
  }
}

function once<T>(_what: string, call: () => Promise<T>): Promise<T> {
  return call();
}

/** A sandbox without limits can use the whole machine. */
export function capacityOf({ cpuMillis, memoryBytes }: ContainerSpec["resources"]): Capacity {
  return { cpuMillis: cpuMillis ?? availableParallelism() * 1000, memoryBytes: memoryBytes ?? totalmem() };
}
