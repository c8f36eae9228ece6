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

/**
 * Returns the last output of a running sandbox's entrypoint, oldest first. A sandbox that is not running has none, and a paused one
 * stays paused.
 * @param since milliseconds since 1970, from which on there are lines. Undefined: all
 * @throws RametError `Unavailable`
 */
export async function sandboxLog(
  { service, guests }: Observed,
  sandbox: Sandbox,
  since: number | undefined,
  signal: AbortSignal,
): Promise<LogLine[]> {
  if (!servingStates.includes(currentState(service, sandbox))) return [];
  const query = new URLSearchParams({ timestamps: "true", tailLines: String(mostLines) });
  if (since !== undefined) query.set("sinceTime", new Date(since).toISOString());
  const path = `/logs?${query.toString()}`;
  const text = await guests.read(sandbox, { port: reportsPort, path, limitBytes: mostBytes, signal });
  return text.split("\n").flatMap(lineIn);
}

const mostLines = 10_000;
const mostBytes = 4 * 1024 * 1024;

/** A line without a time is the part of one that was cut off. */
function lineIn(line: string): LogLine[] {
  const [, written, text = ""] = /^(\S+) ?(.*)$/.exec(line) ?? [];
  const time = new Date(written ?? "");
  return written === undefined || Number.isNaN(time.getTime()) ? [] : [{ time, text }];
}
