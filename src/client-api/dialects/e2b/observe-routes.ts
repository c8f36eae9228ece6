import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { guestClientPort, reportsPort } from "../../../api/wire/cell-api.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import { currentState, servingStates } from "../../service/lifecycle.ts";
import { LogEntry, SandboxMetric, Team } from "./answers.ts";
import { type E2b, type E2bRoute, route, sandboxOf } from "./call.ts";
import { ListMetrics, ReadLogs, ReadLogsV2, ReadMetrics } from "./schemas.ts";

const readLogs = [...needs.read, ...needs.enter];

/** The routes with which clients observe running sandboxes. */
export const observeRoutes: readonly E2bRoute[] = [
  route("GET", "/teams", {
    summary: "Names the namespace of the key, which is the only team that a key knows.",
    needs: [],
    answers: { 200: z.array(Team) },
    // The client knows its key.
    handle: (_e2b, { caller: { namespace } }) => [{ teamID: namespace, name: namespace, apiKey: "", isDefault: true }],
  }),
  route("GET", "/sandboxes/:sandboxID/metrics", {
    summary: "Returns what a running sandbox uses now, as a list of one sample. There is no history.",
    needs: needs.read,
    query: ReadMetrics,
    answers: { 200: z.array(SandboxMetric) },
    handle: async (e2b, call) => {
      const { start = 0, end = Infinity } = call.query;
      if (start > end) throw new RametError("InvalidArgument", "start is later than end");
      const sample = await guestSample(e2b, await sandboxOf(e2b, call), call.signal);
      const isAsked = sample !== undefined && sample.timestampUnix >= start && sample.timestampUnix <= end;
      return isAsked ? [sample] : [];
    },
  }),
  route("GET", "/sandboxes/metrics", {
    summary: "Returns what several running sandboxes use now. Unknown ids are left out.",
    needs: needs.list,
    query: ListMetrics,
    answers: { 200: z.object({ sandboxes: z.record(z.string(), SandboxMetric) }) },
    handle: async (e2b, { query, caller, signal }) => {
      const samples = await Promise.all(
        [...new Set(query.sandbox_ids)].map(async (id) => {
          const sandbox = await findSandbox(e2b.service, caller.namespace, id, signal).catch(() => undefined);
          // One that does not answer must not hide the others.
          const sample = sandbox && (await guestSample(e2b, sandbox, signal).catch(() => undefined));
          return sandbox && sample && ([sandboxIdOf(sandbox), sample] as const);
        }),
      );
      return { sandboxes: Object.fromEntries(samples.filter((sample) => sample !== undefined)) };
    },
  }),
  route("GET", "/sandboxes/:sandboxID/logs", {
    summary: "Returns the output of the entrypoint of a running sandbox.",
    needs: readLogs,
    query: ReadLogs,
    answers: {
      200: z.object({
        logs: z.array(
          z.object({ timestamp: z.string(), line: z.string().describe("JSON: `level`, `logger` and `message`.") }),
        ),
        logEntries: z.array(LogEntry),
      }),
    },
    handle: async (e2b, call) => {
      const lines = await sandboxLog(e2b, await sandboxOf(e2b, call), call.query.start, call.signal);
      const logEntries = lines.slice(0, call.query.limit).map(entryOf);
      // E2B's command line parses each line.
      const lineOf = (message: string) => JSON.stringify({ level: "info", logger: "entrypoint", message });
      const logs = logEntries.map(({ timestamp, message }) => ({ timestamp, line: lineOf(message) }));
      return { logs, logEntries };
    },
  }),
  route("GET", "/v2/sandboxes/:sandboxID/logs", {
    summary: "Returns the output of the entrypoint of a running sandbox, from a time on or before it.",
    needs: readLogs,
    query: ReadLogsV2,
    answers: { 200: z.object({ logs: z.array(LogEntry) }) },
    handle: async (e2b, call) => {
      const { cursor, limit, direction, level, search = "" } = call.query;
      const isForward = direction === "forward";
      const lines = await sandboxLog(e2b, await sandboxOf(e2b, call), isForward ? cursor : undefined, call.signal);
      // All output has the level `info`.
      const isShown = level === undefined || level === "debug" || level === "info";
      const matching = lines
        .filter(({ text }) => isShown && text.includes(search))
        .filter(({ time }) => isForward || cursor === undefined || time.getTime() <= cursor);
      const asked = isForward ? matching.slice(0, limit) : matching.toReversed().slice(0, limit);
      return { logs: asked.map(entryOf) };
    },
  }),
];

/**
 * Asks the guest of a running sandbox. Undefined: it is not running. A paused one stays paused.
 * @throws RametError `Unavailable`
 */
export async function guestSample(
  { service, guests }: E2b,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<z.infer<typeof SandboxMetric> | undefined> {
  if (!servingStates.includes(currentState(service, sandbox))) return undefined;
  const request = { port: guestClientPort, path: "/metrics", limitBytes: 64 * 1024, signal };
  const data = metricsIn(sandbox, await guests.read(sandbox, request));
  const time = service.clock.now();
  return {
    timestamp: time.toISOString(),
    timestampUnix: Math.floor(time.getTime() / 1000),
    cpuCount: data.cpu_count,
    cpuUsedPct: data.cpu_used_pct,
    memUsed: data.mem_used,
    memTotal: data.mem_total,
    memCache: data.mem_cache,
    diskUsed: data.disk_used,
    diskTotal: data.disk_total,
  };
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

function entryOf({ time, text }: LogLine): z.infer<typeof LogEntry> {
  return { timestamp: time.toISOString(), level: "info", message: text, fields: {} };
}

interface LogLine {
  time: Date;
  text: string;
}

/**
 * Returns the last output of a running sandbox's entrypoint, oldest first. A sandbox that is not running has none, and a paused one
 * stays paused.
 * @param since milliseconds since 1970, from which on there are lines. Undefined: all
 * @throws RametError `Unavailable`
 */
async function sandboxLog(
  { service, guests }: E2b,
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
