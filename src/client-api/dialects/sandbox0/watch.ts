import { delay } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { sendLines } from "../../routes/sse.ts";
import type { Call, Sandbox0 } from "./call.ts";

/** A log line or an event of a sandbox. */
interface Observed {
  occurred_at: string;
}

const pollMilliseconds = 1_000;

/**
 * Answers with what appears until the client leaves or the sandbox is deleted, as lines of JSON.
 * @param poll returns what has appeared since the last call, oldest first
 * @throws RametError that of the first call
 */
export async function sendWatch<T extends Observed>(
  { service: { clock } }: Pick<Sandbox0, "service">,
  { reply, signal }: Pick<Call, "reply" | "signal">,
  { type, poll }: { type: "log" | "event"; poll: () => Promise<T[]> },
) {
  const first = await poll();
  async function* lines(): AsyncGenerator<object> {
    try {
      for (let found = first; ; found = await poll()) {
        for (const data of found) yield { type, data };
        const last = found.at(-1);
        if (last !== undefined) yield { type: "watermark", cursor: String(timeOf(last)) };
        await delay(clock, pollMilliseconds, signal);
      }
    } catch (error) {
      if (!signal.aborted) yield { type: "error", error: RametError.from(error).message };
    }
  }
  return sendLines(reply, lines(), clock, () => ({ type: "heartbeat", time: clock.now().toISOString() }));
}

/** The first items, and the cursor of the next ones. These begin after a time, so a page has all items of its last time. */
export function pageOf<T extends Observed>(
  all: readonly T[],
  limit: number,
): { page: T[]; next: { next_cursor?: string } } {
  const full = all[limit - 1]?.occurred_at;
  const page = all.filter(({ occurred_at: time }, at) => at < limit || time === full);
  const last = page.at(-1);
  return { page, next: last && all.length > page.length ? { next_cursor: String(timeOf(last)) } : {} };
}

export function timeOf({ occurred_at: time }: Observed): number {
  return Date.parse(time);
}
