import { availableParallelism, totalmem } from "node:os";
import { isDeepStrictEqual } from "node:util";
import type { Capacity } from "../../api/schema/metadata.ts";
import type { ContainerSpec, Identity } from "../../api/wire/cell-api.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { GuestControl, GuestInitResult } from "../client/guest-control.ts";

const answerTimeoutMilliseconds = 15_000;
const hookTimeoutMilliseconds = 10_000;
const betweenTriesMilliseconds = 2;

/**
 * Repeats a call to the guest until the guest responds on its control port.
 * @throws RametError `SandboxLost` if the sandbox ends first, `GuestUnreachable` after 15 s
 */
export async function untilGuestAnswers<T>(
  call: () => Promise<T>,
  { ended, clock }: { ended: Promise<void>; clock: Clock },
): Promise<T> {
  const deadline = clock.monotonicMilliseconds() + answerTimeoutMilliseconds;
  const over = new AbortController();
  void ended.then(() => {
    over.abort();
  });
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      if (over.signal.aborted)
        throw new RametError("SandboxLost", "the sandbox ended before its guest responded", { cause: error });
      if (clock.monotonicMilliseconds() > deadline) {
        throw new RametError("GuestUnreachable", `the guest did not respond within ${answerTimeoutMilliseconds} ms`, {
          cause: error,
        });
      }
      await delay(clock, betweenTriesMilliseconds);
    }
  }
}

function isUnreachable(error: unknown): boolean {
  return error instanceof RametError && (error.code === "GuestUnreachable" || error.code === "Unavailable");
}

interface HandoverRequest {
  identity: Identity;
  limits: ContainerSpec["resources"];
  clone: boolean;
  /** How many identities the guest has had before. */
  before: number;
  /** The current time: the guest warns if its clock differs. */
  now: Date;
}

/**
 * Gives the guest its identity and returns the new generation. A clone runs its `onRestore` hooks. Open the sandbox to traffic
 * only after this has returned. A repeated call returns the result of the first one.
 * @throws RametError `GuestUnreachable` or `Unavailable` if the guest does not respond; `HandoverFailed`, after which the
 *   sandbox must never be opened to traffic
 */
export async function handover(
  guest: GuestControl,
  { identity, limits, clone, before, now }: HandoverRequest,
): Promise<number> {
  const generation = before + 1;
  try {
    const { hooks } = await guest.init({
      ...identity,
      limits,
      clone,
      generation,
      now: now.toISOString(),
      hookTimeoutMilliseconds,
    });
    const failed = hooks.find(({ exitCode }) => exitCode !== 0);
    if (failed) throw hookFailed(failed);
    return generation;
  } catch (error) {
    if (isUnreachable(error) || (error instanceof RametError && error.code === "HandoverFailed")) throw error;
    throw new RametError("HandoverFailed", `the guest did not accept its identity: ${RametError.from(error).message}`, {
      cause: error,
    });
  }
}

/**
 * The highest generation that the guest may have when it gets its next identity. An identity that was in transit when the guest
 * last responded, or when its memory was captured, may still arrive. The next identity must not be mistaken for a repeat of it.
 */
async function furthestGeneration(guest: GuestControl): Promise<number> {
  return (await guest.health()).generation + 1;
}

function hookFailed({ path, exitCode, timedOut, output }: GuestInitResult["hooks"][number]): RametError {
  const how = timedOut ? `did not exit within ${hookTimeoutMilliseconds} ms` : `exited with code ${exitCode}`;
  return new RametError("HandoverFailed", `the hook ${path} ${how}${output === "" ? "" : `: ${output.trim()}`}`);
}

interface GiveOptions {
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
