import { setTimeout as sleep } from "node:timers/promises";
import type { Identity } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { GuestControl, GuestInitResult } from "../client/guest-control.ts";

const answerTimeoutMilliseconds = 15_000;
const hookTimeoutMilliseconds = 10_000;
const betweenTriesMilliseconds = 2;

/** Repeats a call to the guest until it answers on its control port, or the sandbox has ended. */
export async function untilGuestAnswers<T>(call: () => Promise<T>, ended: Promise<void>): Promise<T> {
  const deadline = Date.now() + answerTimeoutMilliseconds;
  const over = new AbortController();
  void ended.then(() => {
    over.abort();
  });
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isSilence(error)) throw error;
      if (over.signal.aborted)
        throw new RametError("SandboxLost", "the sandbox ended before its guest answered", { cause: error });
      if (Date.now() > deadline) {
        throw new RametError("GuestUnreachable", `the guest did not answer in ${answerTimeoutMilliseconds} ms`, {
          cause: error,
        });
      }
      await sleep(betweenTriesMilliseconds);
    }
  }
}

function isSilence(error: unknown): boolean {
  return error instanceof RametError && (error.code === "GuestUnreachable" || error.code === "Unavailable");
}

export interface HandoverRequest {
  identity: Identity;
  clone: boolean;
  /** How often the guest has been given an identity before. */
  before: number;
}

/**
 * Gives the guest its identity and returns its generation; a clone runs its `onRestore` hooks. Traffic may be let in
 * only when this has returned. A repeat finds what the first call did.
 * @throws RametError `GuestUnreachable` or `Unavailable` when the guest does not answer; `HandoverFailed`: the sandbox must
 *   then never be reachable
 */
export async function handover(guest: GuestControl, wish: HandoverRequest): Promise<number> {
  const { identity, clone, before } = wish;
  const generation = before + 1;
  try {
    const { hooks } = await guest.init({
      ...identity,
      clone,
      generation,
      now: new Date().toISOString(),
      hookTimeoutMilliseconds,
    });
    const failed = hooks.find(({ exitCode }) => exitCode !== 0);
    if (failed) throw hookFailed(failed);
    return generation;
  } catch (error) {
    if (isSilence(error) || (error instanceof RametError && error.code === "HandoverFailed")) throw error;
    throw new RametError("HandoverFailed", `the guest did not take its identity: ${RametError.from(error).message}`, {
      cause: error,
    });
  }
}

/**
 * How often the guest may have been given an identity when the next one comes: one that was on its way when it was asked last,
 * or when its memory was captured, may still arrive. The next must not pass for a repeat of that.
 */
export async function furthestGeneration(guest: GuestControl): Promise<number> {
  return (await guest.health()).generation + 1;
}

function hookFailed({ path, exitCode, timedOut, output }: GuestInitResult["hooks"][number]): RametError {
  const how = timedOut ? `did not end in ${hookTimeoutMilliseconds} ms` : `ended with exit code ${exitCode}`;
  return new RametError("HandoverFailed", `the hook ${path} ${how}${output === "" ? "" : `: ${output.trim()}`}`);
}
