import { systemClock } from "../../base/clock.ts";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import type { CellState } from "../../api/wire/cell-api.ts";
import { Container } from "../../api/schema/pod-template.ts";
import { attemptProbe, ProbeSpec } from "./probe-attempt.ts";
import { PodProbes } from "./probes.ts";

const running: CellState = { phase: "running", generation: 1, ready: true };
const http = { httpGet: { path: "/health", port: 49999 } };

/** A Pod's probes. The test sets the result of a probe by its path. */
function world(probes: object, before?: { started: boolean; ready: boolean }) {
  const clock = new ManualClock();
  const answers = new Map<string, string | Error | undefined>();
  const probed: string[] = [];
  const fatal: string[] = [];
  const container = Container.parse({ name: "main", image: "cell", ...probes });
  const pod = new PodProbes({
    target: { ip: "127.64.0.1", container, cellDirectory: "/none", clock },
    clock,
    before,
    onChange: () => undefined,
    onFatal: (message) => fatal.push(message),
    attempt: ({ httpGet }) => {
      probed.push(httpGet?.path ?? "");
      const answer = answers.get(httpGet?.path ?? "");
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  });
  const pass = async (seconds: number): Promise<void> => {
    for (let i = 0; i < seconds * 10; i += 1) {
      clock.advance(100);
      // Lets the probes that are due finish.
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    }
  };
  return { pod, answers, probed, fatal, pass };
}

describe("the probes of a Pod", () => {
  it("succeed if there are none besides the cell's", () => {
    const { pod } = world({ readinessProbe: { httpGet: { path: "/readyz", port: 49980 } } });
    expect(pod.verdict).toEqual({ started: true, ready: true });
  });

  it("wait for the startup probe, after its delay", async () => {
    const { pod, answers, probed, pass } = world({
      startupProbe: { ...http, initialDelaySeconds: 1, periodSeconds: 2, failureThreshold: 10 },
      readinessProbe: { httpGet: { path: "/ready", port: 49999 }, periodSeconds: 1 },
    });
    answers.set("/health", "connect ECONNREFUSED");
    pod.follow({ ...running, phase: "booting", ready: false });
    await pass(5);
    expect(probed).toEqual([]);
    pod.follow(running);
    await pass(0.9);
    expect(probed).toEqual([]);
    await pass(3);
    expect(new Set(probed)).toEqual(new Set(["/health"]));
    expect(pod.verdict).toMatchObject({ started: false, ready: false, message: /startup probe/ });
    answers.delete("/health");
    await pass(2);
    expect(pod.verdict).toEqual({ started: true, ready: true });
    probed.splice(0);
    await pass(2);
    expect(probed).toEqual(["/ready", "/ready"]);
  });

  it("find a sandbox ready soon after it is, however long the period, and count one failure a period", async () => {
    const startupProbe = { ...http, periodSeconds: 10, failureThreshold: 2 };
    const readinessProbe = { httpGet: { path: "/ready", port: 49999 }, periodSeconds: 10 };
    const { pod, answers, fatal, pass } = world({ startupProbe, readinessProbe });
    answers.set("/health", "connect ECONNREFUSED");
    answers.set("/ready", "HTTP status 503");
    pod.follow(running);
    await pass(0.3);
    answers.delete("/health");
    await pass(0.5);
    expect(pod.verdict).toMatchObject({ started: true, ready: false });
    await pass(5);
    answers.delete("/ready");
    await pass(1.2);
    expect([pod.verdict, fatal]).toEqual([{ started: true, ready: true }, []]);
  });

  it("end the Pod when the startup probe fails too often", async () => {
    const { pod, answers, fatal, pass } = world({ startupProbe: { ...http, periodSeconds: 2, failureThreshold: 3 } });
    answers.set("/health", "HTTP status 503");
    pod.follow(running);
    await pass(3);
    expect(fatal).toEqual([]);
    await pass(10);
    expect(fatal).toEqual(["the startup probe failed: HTTP status 503 (3 times)"]);
  });

  it("report unready after the threshold, and ready after the next success", async () => {
    const { pod, answers, pass } = world({ readinessProbe: { ...http, periodSeconds: 1, failureThreshold: 2 } });
    pod.follow(running);
    expect(pod.verdict.ready).toBe(false);
    await pass(1);
    expect(pod.verdict.ready).toBe(true);
    answers.set("/health", "HTTP status 500");
    await pass(1);
    expect(pod.verdict.ready).toBe(true);
    await pass(1);
    expect(pod.verdict).toEqual({
      started: true,
      ready: false,
      message: "the readiness probe failed: HTTP status 500",
    });
    answers.delete("/health");
    await pass(1);
    expect(pod.verdict.ready).toBe(true);
  });

  it("end the Pod only when the liveness probe fails consecutively", async () => {
    const { pod, answers, fatal, pass } = world({ livenessProbe: { ...http, periodSeconds: 1, failureThreshold: 3 } });
    pod.follow(running);
    await pass(0.5);
    for (const problem of ["a", "b", undefined, "c", "d"]) {
      answers.set("/health", problem);
      await pass(1);
    }
    expect(fatal).toEqual([]);
    await pass(1);
    expect(fatal).toEqual(["the liveness probe failed: d (3 times)"]);
  });

  it("neither end the Pod nor change its readiness while they cannot be made, and report why", async () => {
    const probes = {
      readinessProbe: { ...http, periodSeconds: 1, failureThreshold: 1 },
      livenessProbe: { httpGet: { path: "/live", port: 49999 }, periodSeconds: 1, failureThreshold: 2 },
    };
    const { pod, answers, fatal, pass } = world(probes);
    pod.follow(running);
    await pass(1);
    answers.set("/live", "a");
    await pass(1);
    answers.set("/live", new Error("no cell"));
    await pass(3);
    expect(pod.verdict).toEqual({
      started: true,
      ready: true,
      message: "the liveness probe cannot be made: no cell",
    });
    answers.set("/health", new Error("none here"));
    answers.delete("/live");
    await pass(2);
    expect(pod.verdict).toMatchObject({ ready: true, message: "the readiness probe cannot be made: none here" });
    answers.delete("/health");
    await pass(1);
    expect(pod.verdict).toEqual({ started: true, ready: true });
    expect(fatal).toEqual([]);
  });

  it("do not run while the sandbox is paused or being checkpointed", async () => {
    const { pod, answers, probed, fatal, pass } = world({ livenessProbe: { ...http, periodSeconds: 1 } });
    pod.follow(running);
    await pass(1);
    answers.set("/health", "no response in time");
    const before = probed.length;
    pod.follow({ ...running, phase: "paused", ready: false });
    await pass(10);
    pod.follow({ ...running, checkpointing: "c" });
    await pass(10);
    expect([probed.length, fatal]).toEqual([before, []]);
  });

  it("resume from the reported status after a restart of the node", () => {
    const probes = { startupProbe: http, readinessProbe: http };
    expect(world(probes, { started: true, ready: true }).pod.verdict).toEqual({ started: true, ready: true });
  });
});

describe("a probe attempt", () => {
  it("interprets a response as a kubelet does", async () => {
    const server = createServer((request, response) => {
      if (request.url === "/never") return;
      response.statusCode = Number(request.url?.slice(1));
      response.setHeader("location", "/500").end("x".repeat(100_000));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const container = Container.parse({ name: "a", image: "b", ports: [{ name: "web", containerPort: port }] });
    const at = (probe: object, signal = AbortSignal.timeout(5_000)) =>
      attemptProbe(
        ProbeSpec.parse(probe),
        { ip: "127.0.0.1", container, cellDirectory: "/none", clock: systemClock },
        signal,
      );
    try {
      expect(await at({ httpGet: { path: "/200", port } })).toBeUndefined();
      expect(await at({ httpGet: { path: "302", port: "web" } })).toBeUndefined();
      expect(await at({ httpGet: { path: "/404", port } })).toBe("HTTP status 404");
      expect(await at({ httpGet: { path: "/never", port } }, AbortSignal.timeout(50))).toBe("no response in time");
      expect(await at({ tcpSocket: { port: "web" } })).toBeUndefined();
      expect(await at({ tcpSocket: { port: "none" } })).toContain("no port named none");
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
    expect(await at({ tcpSocket: { port } })).toContain("ECONNREFUSED");
    expect(await at({ httpGet: { port } })).toContain("ECONNREFUSED");
  });
});
