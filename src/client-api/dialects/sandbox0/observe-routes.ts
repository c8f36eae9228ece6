import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { type GuestSample, guestSample, type LogLine, type LogPart, sandboxLog } from "../../service/observe.ts";
import { type Call, envelope, route, type Sandbox0, type Sandbox0Route, sandboxOf, success } from "./call.ts";
import { ReadLogs, ReadMetrics } from "./schemas.ts";
import { bytesOf, newLines, Observation, observation, pageOf, sendWatch, timeOf } from "./watch.ts";

const ofSandbox = "/api/v1/sandboxes/:id";
const Time = z.iso.datetime();

/** The metrics of a sample, by Sandbox0's names. */
const metrics = {
  "sandbox.cpu.limit": ["cores", "The processors of the sandbox.", (used: GuestSample) => used.cpu_count],
  "sandbox.cpu.usage": [
    "cores",
    "The processors in use.",
    (used: GuestSample) => (used.cpu_count * used.cpu_used_pct) / 100,
  ],
  "sandbox.cpu.utilization": [
    "ratio",
    "The part of the processors in use.",
    (used: GuestSample) => used.cpu_used_pct / 100,
  ],
  "sandbox.memory.limit": ["bytes", "The memory of the sandbox.", (used: GuestSample) => used.mem_total],
  "sandbox.memory.usage": ["bytes", "The memory in use.", (used: GuestSample) => used.mem_used],
  "sandbox.memory.utilization": [
    "ratio",
    "The part of the memory in use.",
    (used: GuestSample) => used.mem_used / Math.max(1, used.mem_total),
  ],
  "sandbox.rootfs.writable.usage": [
    "bytes",
    "The files that the sandbox has written.",
    (used: GuestSample) => used.disk_used,
  ],
} as const;
type Metric = keyof typeof metrics;
const names = Object.keys(metrics) as Metric[];

const Series = z.object({
  metric: z.string(),
  kind: z.literal("gauge"),
  unit: z.string(),
  statistic: z.literal("last"),
  segments: z.array(z.object({ points: z.array(z.object({ time: Time, value: z.number() })) })),
});
const Metrics = z.object({
  start_time: Time,
  end_time: Time,
  step_seconds: z.int(),
  series: z.array(Series),
  freshness: z.object({ status: z.enum(["fresh", "missing"]), newest_observed_at: Time.optional() }),
  gaps: z.array(z.unknown()),
  partial: z.boolean(),
});

const Descriptor = z.object({
  name: z.string(),
  kind: z.literal("gauge"),
  unit: z.string(),
  dimensions: z.array(z.string()),
  description: z.string(),
});

const LogEntry = Observation.extend({
  message: z.string(),
  cursor: z.string(),
  stream: z.literal("stdout"),
}).meta({ id: "SandboxObservabilityLogEntry" });

export const observeRoutes: readonly Sandbox0Route[] = [
  route("GET", `${ofSandbox}/metrics`, {
    summary: "Returns what a running sandbox uses now, as series of one point. There is no history.",
    needs: needs.read,
    query: ReadMetrics,
    answers: { 200: envelope(Metrics) },
    handle: async (sandbox0, call) => {
      const { metrics: asked = names.join(",") } = call.query;
      const unknown = asked.split(",").find((name) => !Object.hasOwn(metrics, name));
      if (unknown !== undefined)
        throw new RametError("InvalidArgument", `The metric ${JSON.stringify(unknown)} does not exist`);
      const sample = await guestSample(sandbox0, await sandboxOf(sandbox0, call), call.signal);
      return success(metricsView(sandbox0, call.query, { names: asked.split(",") as Metric[], sample }));
    },
  }),
  route("GET", `${ofSandbox}/metrics/catalog`, {
    summary: "Lists the metrics of a sandbox.",
    needs: needs.read,
    answers: { 200: envelope(z.object({ metrics: z.array(Descriptor) })) },
    handle: async (sandbox0, call) => {
      await sandboxOf(sandbox0, call);
      const all = names.map((name) => {
        const [unit, description] = metrics[name];
        return { name, kind: "gauge", unit, dimensions: [], description };
      });
      return success({ metrics: all });
    },
  }),
  route("GET", `${ofSandbox}/observability/logs`, {
    summary: "Returns the last output of the entrypoint of a running sandbox, oldest first, or follows it.",
    needs: [...needs.read, ...needs.enter],
    query: ReadLogs,
    answers: { 200: envelope(z.object({ logs: z.array(LogEntry), next_cursor: z.string().optional() })) },
    handle: logs,
  }),
];

/** A sample outside of the requested time is none. */
function metricsView(
  { service }: Pick<Sandbox0, "service">,
  { start_time: start, end_time: end }: z.infer<typeof ReadMetrics>,
  { names, sample }: { names: readonly Metric[]; sample: GuestSample | undefined },
): z.infer<typeof Metrics> {
  const time = sample?.time ?? service.clock.now();
  const [from, to] = [new Date(start ?? time), new Date(end ?? time)];
  const isAsked = time >= from && time <= to;
  const seriesOf = (metric: Metric, used: GuestSample): z.infer<typeof Series> => {
    const [unit, , read] = metrics[metric];
    const points = [{ time: time.toISOString(), value: read(used) }];
    return { metric, kind: "gauge", unit, statistic: "last", segments: [{ points }] };
  };
  return {
    start_time: from.toISOString(),
    end_time: to.toISOString(),
    step_seconds: 1,
    series: sample !== undefined && isAsked ? names.map((name) => seriesOf(name, sample)) : [],
    freshness:
      sample === undefined ? { status: "missing" } : { status: "fresh", newest_observed_at: time.toISOString() },
    gaps: [],
    partial: false,
  };
}

async function logs(sandbox0: Sandbox0, call: Call<z.ZodUnknown, typeof ReadLogs>) {
  const { watch, context_id: context, stream, limit, start_time: start, end_time: end, cursor } = call.query;
  if (context !== undefined)
    throw unsupported("context_id", "Only the output of the entrypoint is kept: read the context");
  const sandbox = await sandboxOf(sandbox0, call);
  const read = async (part: LogPart) => {
    const { lines, isCut } = await sandboxLog(sandbox0, sandbox, part, call.signal);
    const entries = stream === undefined || stream === "stdout" ? lines.map((line) => entryOf(line, call)) : [];
    return { entries, isCut };
  };
  const first = cursor ?? (start === undefined ? undefined : Date.parse(start));
  if (watch === true) {
    // Without a beginning it follows what is the last line now.
    const last = first === undefined ? (await read({ tailLines: 1 })).entries.map(timeOf)[0] : undefined;
    const since = async (time: number | undefined) => (await read({ since: time })).entries;
    const poll = newLines(since, first ?? last, cursor ?? last);
    return sendWatch(sandbox0, call, { sandbox, type: "log", poll });
  }
  const { entries, isCut } = await read({ since: first });
  const isAsked = (time: number): boolean =>
    (cursor === undefined || time > cursor) && (end === undefined || time <= Date.parse(end));
  const asked = entries.filter((line) => isAsked(timeOf(line)));
  const { page, next } = pageOf(asked, limit, isCut);
  call.request.held.hold(bytesOf(page));
  return success({ logs: page, ...next });
}

function entryOf({ time, text }: LogLine, { caller, params }: Pick<Call, "caller" | "params">) {
  return {
    ...observation(caller.namespace, params["id"] ?? "", time),
    message: text,
    cursor: String(time.getTime()),
    stream: "stdout" as const,
  };
}

function unsupported(field: string, hint: string): RametError {
  return new RametError("NotSupported", `${field} is not supported`, { hint });
}
