import * as z from "zod";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { guestClientPort, reportsPort } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { Guests } from "./guests.ts";
import { currentState, servingStates } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";

interface Observed {
  service: ServiceParts;
  guests: Pick<Guests, "read">;
}

/** What a sandbox uses at a moment, in bytes. */
export type GuestSample = z.infer<typeof GuestMetrics> & { time: Date };

/**
 * Asks the guest of a running sandbox. Undefined: it is not running. A paused one stays paused.
 * @throws RametError `Unavailable`
 */
export async function guestSample(
  { service, guests }: Observed,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<GuestSample | undefined> {
  if (!servingStates.includes(currentState(service, sandbox))) return undefined;
  const request = { port: guestClientPort, path: "/metrics", limitBytes: 64 * 1024, signal };
  const metrics = metricsIn(sandbox, await guests.read(sandbox, request));
  return { ...metrics, time: service.clock.now() };
}

const Bytes = z.int().min(0);
const GuestMetrics = z.object({
  cpu_count: z.int().min(0),
  cpu_used_pct: z.number().min(0),
  mem_used: Bytes,
  mem_total: Bytes,
  mem_cache: Bytes.default(0),
  disk_used: Bytes.default(0),
  disk_total: Bytes.default(0),
});

/** The guest can be replaced by root in the sandbox, so the text can be anything. */
function metricsIn({ metadata: { name } }: Sandbox, text: string): z.infer<typeof GuestMetrics> {
  try {
    return GuestMetrics.parse(JSON.parse(text));
  } catch (cause) {
    throw new RametError("Unavailable", `The sandbox ${name} sent no valid metrics`, { cause });
  }
}

/** A line of the output of an entrypoint. */
export interface LogLine {
  time: Date;
  text: string;
}

/** The lines from a time on, in milliseconds since 1970, or else the last ones. */
export interface LogPart {
  since?: number | undefined;
  /** @default 10,000 */
  tailLines?: number;
}

/**
 * Returns the output of a running sandbox's entrypoint, oldest first: at most 4 MiB. A sandbox that is not running has none, and a paused
 * one stays paused.
 * @returns `isCut`: there are more, of which the next call returns those since the time of the last one
 * @throws RametError `Unavailable`
 */
export async function sandboxLog(
  { service, guests }: Observed,
  sandbox: Sandbox,
  { since, tailLines = 10_000 }: LogPart,
  signal: AbortSignal,
): Promise<{ lines: LogLine[]; isCut: boolean }> {
  if (!servingStates.includes(currentState(service, sandbox))) return { lines: [], isCut: false };
  // A cell knows the times between 1970 and the year 9999.
  const from = (time: number) => new Date(Math.min(Math.max(0, time), lastTime)).toISOString();
  const part = since === undefined ? { tailLines: String(tailLines) } : { sinceTime: from(since) };
  const path = `/logs?${new URLSearchParams({ timestamps: "true", ...part }).toString()}`;
  const text = await guests.read(sandbox, { port: reportsPort, path, limitBytes: mostBytes, signal });
  // What follows the last line feed is the part of a line.
  const lines = text.split("\n").slice(0, -1).flatMap(lineIn);
  if (Buffer.byteLength(text) < mostBytes) return { lines, isCut: false };
  // Those of the last time come with the others of it, unless there is no other time.
  const last = lines.at(-1)?.time.getTime();
  const complete = lines.filter(({ time }) => time.getTime() !== last);
  return { lines: complete.length > 0 ? complete : lines, isCut: true };
}

const mostBytes = 4 * 1024 * 1024;
/** The last millisecond of the year 9999. */
export const lastTime = 253_402_300_799_999;

function lineIn(line: string): LogLine[] {
  const [, written, text = ""] = /^(\S+) ?(.*)$/.exec(line) ?? [];
  const time = new Date(written ?? "");
  return written === undefined || Number.isNaN(time.getTime()) ? [] : [{ time, text }];
}
