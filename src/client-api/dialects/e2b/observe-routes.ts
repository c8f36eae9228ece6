import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import { type GuestSample, guestSample, type LogLine, sandboxLog } from "../../service/observe.ts";
import { LogEntry, SandboxMetric, Team } from "./answers.ts";
import { type E2bRoute, route, sandboxOf } from "./call.ts";
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
      const found = await guestSample(e2b, await sandboxOf(e2b, call), call.signal);
      const sample = found && metricOf(found);
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
          return sandbox && sample && ([sandboxIdOf(sandbox), metricOf(sample)] as const);
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
      const from = { since: call.query.start };
      const { lines } = await sandboxLog(e2b, await sandboxOf(e2b, call), from, call.signal);
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
      const from = { since: isForward ? cursor : undefined };
      const { lines } = await sandboxLog(e2b, await sandboxOf(e2b, call), from, call.signal);
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

function metricOf({ time, ...used }: GuestSample): z.infer<typeof SandboxMetric> {
  return {
    timestamp: time.toISOString(),
    timestampUnix: Math.floor(time.getTime() / 1000),
    cpuCount: used.cpu_count,
    cpuUsedPct: used.cpu_used_pct,
    memUsed: used.mem_used,
    memTotal: used.mem_total,
    memCache: used.mem_cache,
    diskUsed: used.disk_used,
    diskTotal: used.disk_total,
  };
}

function entryOf({ time, text }: LogLine): z.infer<typeof LogEntry> {
  return { timestamp: time.toISOString(), level: "info", message: text, fields: {} };
}
