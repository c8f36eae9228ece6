import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import { sandboxMetrics } from "../../service/sandbox-metrics.ts";
import { RametError } from "../../../base/errors.ts";
import { LogEntry, SandboxMetric, Team } from "./answers.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { needs } from "../../keys/needs.ts";
import { ListMetrics, ReadLogs, ReadLogsV2, ReadMetrics } from "./schemas.ts";
import { reportsPort } from "../../../api/wire/cell-api.ts";
import { currentState } from "../../service/lifecycle.ts";
import type { ServiceParts } from "../../service/parts.ts";
import type { ReadSandbox } from "../../service/read-sandbox.ts";

/** The routes with which clients observe running sandboxes. */
export const observeRoutes: readonly E2bRoute[] = [
  route({
    method: "GET",
    path: "/teams",
    summary: "Names the namespace of the key, which is the only team that a key knows.",
    needs: [],
    answers: { 200: z.array(Team) },
    // The client knows its key.
    handle: async (_e2b, { caller: { namespace }, reply }) =>
      reply.send([{ teamID: namespace, name: namespace, apiKey: "", isDefault: true }]),
  }),
  route({
    method: "GET",
    path: "/sandboxes/:sandboxID/metrics",
    summary: "Returns what a running sandbox uses now, as a list of one sample. There is no history.",
    needs: needs.read,
    query: ReadMetrics,
    answers: { 200: z.array(SandboxMetric) },
    handle: metrics,
  }),
  route({
    method: "GET",
    path: "/sandboxes/metrics",
    summary: "Returns what several running sandboxes use now. Unknown ids are left out.",
    needs: needs.list,
    query: ListMetrics,
    answers: { 200: z.object({ sandboxes: z.record(z.string(), SandboxMetric) }) },
    handle: metricsOfMany,
  }),
  route({
    method: "GET",
    path: "/sandboxes/:sandboxID/logs",
    summary: "Returns the output of the entrypoint of a running sandbox.",
    needs: [...needs.read, ...needs.enter],
    query: ReadLogs,
    answers: {
      200: z.object({
        logs: z.array(z.object({ timestamp: z.string(), line: z.string() })),
        logEntries: z.array(LogEntry),
      }),
    },
    handle: async ({ service, readSandbox, sandboxOf }, call) => {
      const { start, limit } = call.query;
      const lines = await sandboxLog(service, readSandbox, await sandboxOf(call), {
        ...since(start),
        signal: call.signal,
      });
      const logEntries = lines.slice(0, limit).map(entryOf);
      return call.reply.send({
        logs: logEntries.map(({ timestamp, message }) => ({ timestamp, line: message })),
        logEntries,
      });
    },
  }),
  route({
    method: "GET",
    path: "/v2/sandboxes/:sandboxID/logs",
    summary: "Returns the output of the entrypoint of a running sandbox, from a time on or before it.",
    needs: [...needs.read, ...needs.enter],
    query: ReadLogsV2,
    answers: { 200: z.object({ logs: z.array(LogEntry) }) },
    handle: logs,
  }),
];

async function metrics(e2b: E2b, call: Call<unknown, ReadMetrics>): Promise<unknown> {
  const { start = 0, end = Infinity } = call.query;
  if (start > end) throw new RametError("InvalidArgument", "start is later than end");
  const sandbox = await e2b.sandboxOf(call);
  const sample = await sampleOf(e2b, sandbox, call.signal);
  const isAsked = sample !== undefined && sample.timestampUnix >= start && sample.timestampUnix <= end;
  return call.reply.send(isAsked ? [sample] : []);
}

async function metricsOfMany(e2b: E2b, call: Call<unknown, ListMetrics>): Promise<unknown> {
  const { caller, signal } = call;
  const samples = await Promise.all(
    [...new Set(call.query.sandbox_ids)].map(async (id) => {
      const sandbox = await findSandbox(e2b.service, caller.namespace, id, signal).catch(() => undefined);
      // One that does not answer must not hide the others.
      const sample = sandbox && (await sampleOf(e2b, sandbox, signal).catch(() => undefined));
      return sandbox && sample && ([sandboxIdOf(sandbox), sample] as const);
    }),
  );
  return call.reply.send({ sandboxes: Object.fromEntries(samples.filter((sample) => sample !== undefined)) });
}

async function sampleOf(
  { service, readSandbox }: E2b,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<SandboxMetric | undefined> {
  const found = await sandboxMetrics(service, readSandbox, sandbox, signal);
  if (found === undefined) return undefined;
  return {
    timestamp: found.time.toISOString(),
    timestampUnix: Math.floor(found.time.getTime() / 1000),
    cpuCount: found.cpuCount,
    cpuUsedPct: found.cpuUsedPercent,
    memUsed: found.memoryUsedBytes,
    memTotal: found.memoryTotalBytes,
    memCache: found.memoryCacheBytes,
    diskUsed: found.diskUsedBytes,
    diskTotal: found.diskTotalBytes,
  };
}

async function logs({ service, readSandbox, sandboxOf }: E2b, call: Call<unknown, ReadLogsV2>): Promise<unknown> {
  const { cursor, limit, direction, level, search = "" } = call.query;
  const isForward = direction === "forward";
  const lines = await sandboxLog(service, readSandbox, await sandboxOf(call), {
    ...(isForward && since(cursor)),
    signal: call.signal,
  });
  // All output has the level `info`.
  const isShown = level === undefined || level === "debug" || level === "info";
  const matching = lines
    .filter(({ text }) => isShown && text.includes(search))
    .filter(({ time }) => isForward || cursor === undefined || time.getTime() <= cursor);
  const asked = isForward ? matching.slice(0, limit) : matching.toReversed().slice(0, limit);
  return call.reply.send({ logs: asked.map(entryOf) });
}

function since(milliseconds: number | undefined): { since?: Date } {
  return milliseconds === undefined ? {} : { since: new Date(milliseconds) };
}

function entryOf({ time, text }: LogLine): LogEntry {
  return { timestamp: time.toISOString(), level: "info", message: text, fields: {} };
}

interface LogLine {
  time: Date;
  text: string;
}

interface ReadLog {
  /** Only lines from this time on. */
  since?: Date;
  signal: AbortSignal;
}

/**
 * Returns the last output of a running sandbox's entrypoint, oldest first. A sandbox that is not running has none, and a paused one
 * stays paused.
 * @throws RametError `Unavailable`
 */
async function sandboxLog(
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
