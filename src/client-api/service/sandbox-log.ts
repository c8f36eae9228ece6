import { reportsPort } from "../../api/wire/cell-api.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { currentState } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";
import type { ReadSandbox } from "./read-sandbox.ts";

export interface LogLine {
  time: Date;
  text: string;
}

export interface ReadLog {
  /** Only lines from this time on. */
  since?: Date;
  signal: AbortSignal;
}

/**
 * Returns the last output of a running sandbox's entrypoint, oldest first. A sandbox that is not running has none, and a paused one
 * stays paused.
 * @throws RametError `Unavailable`
 */
export async function sandboxLog(
  parts: ServiceParts,
  read: ReadSandbox,
  sandbox: Sandbox,
  { since, signal }: ReadLog,
): Promise<LogLine[]> {
  const state = currentState(parts, sandbox);
  if (state !== "running" && state !== "snapshotting") return [];
  const query = new URLSearchParams({ timestamps: "true", tailLines: String(mostLines) });
  if (since !== undefined) query.set("sinceTime", since.toISOString());
  const path = `/logs?${query.toString()}`;
  const text = await read(sandbox, { port: reportsPort, path, limitBytes: mostBytes, signal });
  return text.split("\n").flatMap(lineOf);
}

const mostLines = 10_000;
const mostBytes = 4 * 1024 * 1024;

/** A line without a time is the part of one that was cut off. */
function lineOf(line: string): LogLine[] {
  const [, written, text = ""] = /^(\S+) ?(.*)$/.exec(line) ?? [];
  const time = new Date(written ?? "");
  return written === undefined || Number.isNaN(time.getTime()) ? [] : [{ time, text }];
}
