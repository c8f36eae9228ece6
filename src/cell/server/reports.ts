import { renameSync, watch, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import * as z from "zod";
import type { CellState, EgressReport } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { statusOf, untilWritable } from "../../base/http.ts";
import type { Cell } from "../lifecycle/cell.ts";

interface ReportsOptions {
  cell: Pick<Cell, "egressReport">;
  /** The file with the output of the entrypoint. */
  logPath: string;
}

/**
 * Serves what a cell knows about its sandbox: the output of the entrypoint (`/logs`, with the options of `kubectl logs`), and
 * its egress as JSON (`/`) and for Prometheus (`/metrics`). It does not listen: the cell's server passes the connections of
 * authorized gateways to it. The counts come from link, so a program in the sandbox cannot change those of others.
 */
export function reports(options: ReportsOptions): Server {
  return createServer((request, response) => {
    response.on("error", () => response.destroy());
    void answer(options, request, response);
  });
}

async function answer(
  { cell, logPath }: ReportsOptions,
  { method = "", url = "/" }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    const [path = "", query = ""] = url.split("?");
    if (method === "GET" && path === "/logs") {
      await sendLog(logPath, new URLSearchParams(query), response);
      return;
    }
    const render = method === "GET" && Object.hasOwn(pages, url) ? pages[url] : undefined;
    if (render === undefined)
      throw new RametError("NotFound", `the cell has no report ${method} ${url.slice(0, 80)}`, {
        hint: "Use GET /logs, GET / or GET /metrics",
      });
    const { type, text } = render(await cell.egressReport());
    response.writeHead(200, { "content-type": type }).end(text);
  } catch (error) {
    sendError(response, error);
  }
}

const pages: Record<string, (report: EgressReport) => { type: string; text: string }> = {
  "/": (report) => ({ type: "application/json", text: `${JSON.stringify(report, undefined, 2)}\n` }),
  "/metrics": (report) => ({ type: "text/plain; version=0.0.4; charset=utf-8", text: metricsOf(report) }),
};

/** No label has a value that the sandbox chooses. */
function metricsOf({ connections: { open, ...connections }, bytes, dns }: EgressReport): string {
  return [
    ...counter("ramet_egress_connections_total", "Outgoing connections of the sandbox by result", {
      allowed: connections.allowed,
      denied: connections.denied,
      failed: connections.failed,
      over_limit: connections.overLimit,
    }),
    "# HELP ramet_egress_open_connections Open outgoing connections of the sandbox",
    "# TYPE ramet_egress_open_connections gauge",
    `ramet_egress_open_connections ${open}`,
    ...counter("ramet_egress_bytes_total", "Bytes of outgoing connections of the sandbox, without DNS", bytes),
    ...counter("ramet_egress_dns_questions_total", "DNS questions of the sandbox by result", {
      allowed: dns.questions - dns.refused,
      refused: dns.refused,
    }),
    "",
  ].join("\n");
}

function counter(name: string, help: string, values: Record<string, number>): string[] {
  const label = name === "ramet_egress_bytes_total" ? "direction" : "result";
  const lines = Object.entries(values).map(([key, value]) => `${name}{${label}="${key}"} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} counter`, ...lines];
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

export function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  const { code, message, hint, retryable } = RametError.from(error);
  sendJson(response, statusOf(code), { code, message, hint, retryable });
}

const Query = z.object({
  follow: z.stringbool().default(false),
  timestamps: z.stringbool().default(false),
  tailLines: z.coerce.number().int().min(0).optional(),
  sinceTime: z.iso.datetime({ offset: true }).optional(),
  limitBytes: z.coerce.number().int().min(1).optional(),
});

/** Sends the entrypoint's log, filtered by the options of `kubectl logs`. With `follow`, until the client disconnects. */
export async function sendLog(path: string, query: URLSearchParams, response: ServerResponse): Promise<void> {
  const parsed = Query.safeParse(Object.fromEntries(query));
  if (!parsed.success) throw new RametError("InvalidArgument", `logs: invalid query: ${z.prettifyError(parsed.error)}`);
  const { follow, timestamps, tailLines, sinceTime, limitBytes } = parsed.data;
  const file = await open(path, "r");
  const format = (lines: string[]): string =>
    lines.map((line) => `${timestamps ? line.replace(/ \S+ F /, " ") : line.replace(/^\S+ \S+ F /, "")}\n`).join("");
  let rest = "";
  const nextLines = async (): Promise<string[]> => {
    const lines = (rest + (await readToEnd(file))).split("\n");
    rest = lines.pop() ?? "";
    return sinceTime === undefined ? lines : lines.filter((line) => line >= sinceTime);
  };
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  const lines = await nextLines();
  const first = format(tailLines === undefined ? lines : lines.slice(lines.length - Math.min(tailLines, lines.length)));
  await send(response, limitBytes === undefined ? first : first.slice(0, limitBytes));
  if (!follow || response.destroyed) {
    await file.close();
    response.end();
    return;
  }
  // A client that reads slowly holds back the next read of the file, not lines in the cell's memory.
  let change = Promise.withResolvers<unknown>();
  const watcher = watch(path, () => {
    change.resolve(undefined);
  });
  response.once("close", () => {
    change.resolve(undefined);
  });
  try {
    while (!response.closed) {
      change = Promise.withResolvers();
      await send(response, format(await nextLines()));
      await change.promise;
    }
  } finally {
    watcher.close();
    await file.close();
  }
}

/** Resolves when the client has room for more or is gone. */
async function send(response: ServerResponse, text: string): Promise<void> {
  if (!response.destroyed && !response.write(text)) await untilWritable(response);
}

async function readToEnd(file: Awaited<ReturnType<typeof open>>): Promise<string> {
  const chunks: Buffer[] = [];
  for (;;) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(65536), 0, 65536, null);
    if (bytesRead === 0) return Buffer.concat(chunks).toString("utf8");
    chunks.push(buffer.subarray(0, bytesRead));
  }
}

/** The steps of a start or a restore in place follow each other faster than this. Writing each step would waste CPU. */
const stepMilliseconds = 300;
const startPhases: ReadonlySet<string> = new Set(["preparing", "waiting", "booting", "restoring"]);

/**
 * Keeps the cell's state in a file for the node that runs it. Steps of a start are written after a delay, everything else
 * immediately. Writes are synchronous, so that the last state is in the file when the process exits.
 */
export function keepStateFile(cell: Pick<Cell, "state" | "onChange">, path: string, clock: Clock): void {
  let cancelWrite: (() => void) | undefined;
  const write = (): void => {
    cancelWrite?.();
    cancelWrite = undefined;
    writeState(path, cell.state);
  };
  write();
  cell.onChange(({ phase, swapping }) => {
    const isStep = startPhases.has(phase) || (swapping !== undefined && phase !== "failed");
    if (isStep) cancelWrite ??= clock.schedule(stepMilliseconds, write);
    else write();
  });
}

/** Replaces the file atomically: a reader finds either the old state or this one. */
export function writeState(path: string, state: CellState): void {
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`);
  renameSync(`${path}.new`, path);
}
