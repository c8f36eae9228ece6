import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { delay } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { sendLines } from "../../routes/sse.ts";
import { unknown } from "../../service/find-sandbox.ts";
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
  { service: { clock, sandboxes } }: Pick<Sandbox0, "service">,
  { reply, signal }: Pick<Call, "reply" | "signal">,
  { sandbox: { metadata }, type, poll }: { sandbox: Sandbox; type: "log" | "event"; poll: () => Promise<T[]> },
) {
  const found = (): Promise<T[]> => {
    if (sandboxes.current(metadata.uid) === undefined) throw unknown(metadata.name);
    return poll();
  };
  const first = await found();
  async function* lines(): AsyncGenerator<object> {
    try {
      for (let all = first; ; all = await found()) {
        for (const data of all) yield { type, data };
        const last = all.at(-1);
        if (last !== undefined) yield { type: "watermark", cursor: String(timeOf(last)) };
        await delay(clock, pollMilliseconds, signal);
      }
    } catch (error) {
      if (!signal.aborted) yield { type: "error", error: RametError.from(error).message };
    }
  }
  return sendLines(reply, lines(), clock, () => ({ type: "heartbeat", time: clock.now().toISOString() }));
}

/** Reads the lines that have appeared since the last call. Several have the same time. @param seen the time whose lines are known */
export function newLines<T extends Observed>(
  read: (since: number | undefined) => Promise<T[]>,
  first: number | undefined,
  seen: number | undefined,
): () => Promise<T[]> {
  let since = first;
  let known = seen === undefined ? 0 : Infinity;
  return async () => {
    const all = (await read(since)).filter((line) => since === undefined || timeOf(line) >= since);
    const atTime = (time: number | undefined): number => all.filter((line) => timeOf(line) === time).length;
    const fresh = all.slice(Math.min(known, atTime(since)));
    const last = fresh.at(-1);
    since = last === undefined ? since : timeOf(last);
    known = atTime(since);
    return fresh;
  };
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
