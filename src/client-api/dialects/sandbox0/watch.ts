import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { delay } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { whenOver } from "../../routes/admission.ts";
import { sendLines } from "../../routes/sse.ts";
import { unknown } from "../../service/find-sandbox.ts";
import type { Call, Sandbox0 } from "./call.ts";

/** The fields that log lines and events of a sandbox share. */
export const Observation = z.object({
  team_id: z.string(),
  sandbox_id: z.string(),
  region_id: z.string(),
  cluster_id: z.string(),
  occurred_at: z.iso.datetime(),
  ingested_at: z.iso.datetime(),
});

interface Observed extends Pick<z.infer<typeof Observation>, "occurred_at"> {
  message?: string;
}

export function observation(team: string, sandboxId: string, at: Date): z.infer<typeof Observation> {
  const time = at.toISOString();
  const places = { region_id: "", cluster_id: "" };
  return { team_id: team, sandbox_id: sandboxId, ...places, occurred_at: time, ingested_at: time };
}

const pollMilliseconds = 1_000;

/**
 * Answers with what appears until the client leaves or the sandbox is deleted, as lines of JSON.
 * @param poll returns what has appeared since the last call, oldest first
 * @throws RametError that of the first call
 */
export async function sendWatch<T extends Observed>(
  { service: { clock, sandboxes }, watches }: Pick<Sandbox0, "service" | "watches">,
  { request, reply, caller: { key }, signal, query }: WatchCall,
  { sandbox: { metadata }, type, poll }: { sandbox: Sandbox; type: "log" | "event"; poll: () => Promise<T[]> },
) {
  if (query.end_time !== undefined) throw new RametError("InvalidArgument", "A watch has no end_time");
  const leave = watches.take(key);
  if (leave === undefined)
    throw new RametError("TooManyRequests", `The API key ${key} has too many watches`, {
      hint: "End earlier ones first",
      retryable: true,
    });
  whenOver(reply, leave);
  const found = async (): Promise<T[]> => {
    if (sandboxes.current(metadata.uid) === undefined) throw unknown(metadata.name);
    const all = await poll();
    request.held.hold(bytesOf(all));
    return all;
  };
  let all = await found();
  const heartbeat = () => ({ type: "heartbeat", time: clock.now().toISOString() });
  async function* lines(): AsyncGenerator<object> {
    // The client gets the headers with the first line.
    yield heartbeat();
    try {
      for (;;) {
        for (const data of all) yield { type, data };
        const last = all.at(-1);
        if (last !== undefined) yield { type: "watermark", cursor: String(timeOf(last)) };
        all = [];
        request.held.hold(0);
        await delay(clock, pollMilliseconds, signal);
        all = await found();
      }
    } catch (error) {
      if (!signal.aborted) yield { type: "error", error: RametError.from(error).message };
    }
  }
  return sendLines(reply, lines(), clock, heartbeat);
}

type WatchCall = Pick<Call, "request" | "reply" | "caller" | "signal"> & { query: { end_time?: string | undefined } };

/** About how many bytes they take until they are sent. */
export function bytesOf(all: readonly Observed[]): number {
  return all.reduce((sum, { message = "" }) => sum + 400 + message.length, 0);
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
    // A paused sandbox has no log for a while.
    if (all.length === 0) return [];
    const atTime = (time: number | undefined): number => all.filter((line) => timeOf(line) === time).length;
    const fresh = all.slice(Math.min(known, atTime(since)));
    const last = fresh.at(-1);
    since = last === undefined ? since : timeOf(last);
    known = atTime(since);
    return fresh;
  };
}

/**
 * The first items, and the cursor of the next ones. These begin after a time, so a page has all items of its last time.
 * @param isCut whether there are more than these items
 */
export function pageOf<T extends Observed>(
  all: readonly T[],
  limit: number,
  isCut = false,
): { page: T[]; next: { next_cursor?: string } } {
  const full = all[limit - 1]?.occurred_at;
  const page = all.filter(({ occurred_at: time }, at) => at < limit || time === full);
  const last = page.at(-1);
  return { page, next: last && (isCut || all.length > page.length) ? { next_cursor: String(timeOf(last)) } : {} };
}

export function timeOf({ occurred_at: time }: Observed): number {
  return Date.parse(time);
}
