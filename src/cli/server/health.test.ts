import { Registry } from "prom-client";
import { afterEach, describe, expect, it } from "vitest";
import { controllersMetrics } from "../../controllers/metrics.ts";
import { serveHealth, type HealthServer } from "./health.ts";

describe("the port of a server for probes and metrics", () => {
  let server: HealthServer | undefined;
  afterEach(() => server?.close());

  it("says when the server works, and what it measures", async () => {
    const { registry } = controllersMetrics();
    server = await serveHealth({ port: 0, address: "127.0.0.1", registry });
    const at = (path: string) => fetch(`http://127.0.0.1:${server!.port}${path}`);
    expect((await at("/healthz")).status).toBe(200);
    expect((await at("/readyz")).status).toBe(503);
    server.setReady(true);
    expect((await at("/readyz")).status).toBe(200);
    expect(await (await at("/metrics")).text()).toContain("ramet_reconciles_total");
    expect((await at("/else")).status).toBe(404);
  });

  it("says that a port is taken, and what to do", async () => {
    const registry = new Registry();
    server = await serveHealth({ port: 0, address: "127.0.0.1", registry });
    await expect(serveHealth({ port: server.port, address: "127.0.0.1", registry })).rejects.toMatchObject({
      code: "Unavailable",
      hint: "Choose another one with --metrics-port.",
    });
  });
});
