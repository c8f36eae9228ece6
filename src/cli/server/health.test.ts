import { Gauge, Registry } from "prom-client";
import { afterEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { silentLog } from "../../base/log.ts";
import { controllersMetrics } from "../../controllers/metrics.ts";
import { Liveness, stoppedMilliseconds } from "../../kube/liveness.ts";
import { serveHealth, type HealthServer } from "./health.ts";

describe("serveHealth", () => {
  const clock = new ManualClock();
  const liveness = new Liveness(clock);
  const common = { address: "127.0.0.1", liveness, log: silentLog };
  let server: HealthServer | undefined;
  afterEach(() => server?.close());
  const get = (path: string) => fetch(`http://127.0.0.1:${server!.port}${path}`);

  it("serves /healthz, /readyz and the metrics", async () => {
    const { registry } = controllersMetrics();
    server = await serveHealth({ ...common, port: 0, registry });
    expect((await get("/healthz")).status).toBe(200);
    expect((await get("/readyz")).status).toBe(503);
    server.setReady(true);
    expect((await get("/readyz")).status).toBe(200);
    expect(await (await get("/metrics")).text()).toContain("ramet_reconciles_total");
    expect((await get("/else")).status).toBe(404);
  });

  it("fails only /livez when something has stopped", async () => {
    server = await serveHealth({ ...common, port: 0, registry: new Registry() });
    expect((await get("/livez")).status).toBe(200);
    liveness.add({ waitingSince: () => 0, describe: () => "The informer of pods has made no progress" });
    clock.advance(stoppedMilliseconds + 1);
    const response = await get("/livez");
    expect(response.status).toBe(503);
    expect(await response.text()).toBe("The informer of pods has made no progress for 20 minutes\n");
    expect((await get("/healthz")).status).toBe(200);
  });

  it("responds with 500 when a metric cannot be collected", async () => {
    const registry = new Registry();
    new Gauge({
      name: "broken",
      help: "broken",
      registers: [registry],
      collect: () => Promise.reject(new Error("no value")),
    });
    server = await serveHealth({ ...common, port: 0, registry });
    expect((await get("/metrics")).status).toBe(500);
    expect((await get("/healthz")).status).toBe(200);
  });

  it("reports a port that is in use", async () => {
    const registry = new Registry();
    server = await serveHealth({ ...common, port: 0, registry });
    await expect(serveHealth({ ...common, port: server.port, registry })).rejects.toMatchObject({
      code: "Unavailable",
      hint: "Choose another one with --metrics-port",
    });
  });
});
