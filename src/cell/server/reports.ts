import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { EgressReport } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { statusOf } from "../../base/http.ts";
import type { Cell } from "../lifecycle/cell.ts";
import { sendLog } from "./log-stream.ts";

export interface ReportsOptions {
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
