import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { Registry } from "prom-client";
import type { Log } from "../../base/log.ts";
import { closingResponse, openPort } from "../../base/http.ts";
import type { Liveness } from "../../kube/liveness.ts";

export interface HealthOptions {
  /** 0 opens a free port. */
  port: number;
  address: string;
  registry: Registry;
  liveness: Liveness;
  log: Log;
}

export interface HealthServer {
  port: number;
  /** Whether `/readyz` responds with 200 from now on; if not, with this reason. */
  setReady(isReady: boolean, why?: string): void;
  close(): Promise<void>;
}

/**
 * Serves the probes and metrics of a server:
 *
 * - `/livez` responds with 503 when something has stopped that only a restart brings back (see `Liveness`).
 * - `/healthz` always responds with 200: the process runs.
 * - `/readyz` responds with 200 while the server does its work.
 * - `/metrics` is for Prometheus.
 *
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function serveHealth({ port, address, registry, liveness, log }: HealthOptions): Promise<HealthServer> {
  let ready = false;
  let reason = "not ready";
  const pages: Readonly<Record<string, Page>> = {
    "/livez": (response) => {
      const problems = liveness.problems();
      if (problems.length > 0) log.error({ problems }, "the liveness probe fails: this process has to be restarted");
      response.writeHead(problems.length === 0 ? 200 : 503).end(`${problems.join("\n") || "ok"}\n`);
    },
    "/healthz": (response) => {
      response.end("ok\n");
    },
    "/readyz": (response) => {
      response.writeHead(ready ? 200 : 503).end(`${ready ? "ok" : reason}\n`);
    },
    "/metrics": async (response) => {
      const text = await registry.metrics();
      response.writeHead(200, { "content-type": registry.contentType }).end(text);
    },
  };
  const server = createServer({ ServerResponse: closingResponse() }, (request, response) => {
    const page = pages[(request.url ?? "").split("?")[0] ?? ""];
    if (page === undefined) response.writeHead(404).end(`not found; the paths are ${Object.keys(pages).join(", ")}\n`);
    else void respond(response, page, log);
  });
  const opened = await openPort(server, { port, address, hint: "Choose another one with --metrics-port" });
  return {
    port: opened,
    setReady: (isReady, why = "not ready") => {
      ready = isReady;
      reason = why;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

type Page = (response: ServerResponse) => Promise<void> | void;

/** A page that fails responds with 500. The server that it reports on keeps running. */
async function respond(response: ServerResponse, page: Page, log: Log): Promise<void> {
  try {
    await page(response);
  } catch (error) {
    log.error({ err: error }, "a page of the health server failed");
    if (response.headersSent) response.destroy();
    else response.writeHead(500).end("an internal error, see the log\n");
  }
}
