import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { Registry } from "prom-client";
import { openPort } from "../../base/open-port.ts";

export interface HealthOptions {
  /** 0: any that is free. */
  port: number;
  address: string;
  registry: Registry;
}

export interface HealthServer {
  port: number;
  /** Whether `/readyz` answers 200 from now on. */
  setReady(isReady: boolean): void;
  close(): Promise<void>;
}

/**
 * Serves `/healthz` (the process answers), `/readyz` (the server works) and `/metrics` (for Prometheus).
 *
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function serveHealth({ port, address, registry }: HealthOptions): Promise<HealthServer> {
  let ready = false;
  const pages: Readonly<Record<string, (response: ServerResponse) => Promise<void> | void>> = {
    "/healthz": (response) => {
      response.end("ok\n");
    },
    "/readyz": (response) => {
      response.writeHead(ready ? 200 : 503).end(ready ? "ok\n" : "not ready\n");
    },
    "/metrics": async (response) => {
      const text = await registry.metrics();
      response.writeHead(200, { "content-type": registry.contentType }).end(text);
    },
  };
  const server = createServer((request, response) => {
    const page = pages[(request.url ?? "").split("?")[0] ?? ""];
    if (page === undefined) response.writeHead(404).end("there are /healthz, /readyz and /metrics\n");
    else void page(response);
  });
  const opened = await openPort(server, { port, address, hint: "Choose another one with --metrics-port." });
  return {
    port: opened,
    setReady: (isReady) => {
      ready = isReady;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
