import { describe, expect, it } from "vitest";
import { parsePodTemplate } from "../schema/pod-template.ts";
import { CellConfig } from "../wire/cell-api.ts";
import { cellPod } from "./cell-pod.ts";
import { parseTcpProbePath, tcpProbeOf } from "./tcp-probe.ts";

const owner = { metadata: { name: "a", namespace: "team", uid: "u-1" }, spec: {} };

function cellOf(container: object) {
  const main = { name: "main", image: "python:3.12", ...container };
  const sidecar = { name: "side", image: "s", readinessProbe: { tcpSocket: { port: 9000 } } };
  const { spec } = cellPod(owner, parsePodTemplate({ spec: { containers: [main, sidecar] } }), {
    cellImage: "ramet/cell:1",
    publicKey: "key",
    start: "boot",
  });
  const [cell, other] = spec.containers;
  const config = CellConfig.parse(JSON.parse(cell?.env?.find(({ name }) => name === "RAMET_CELL")?.value ?? ""));
  return { cell: cell!, other, config };
}

describe("a tcpSocket probe of the sandbox's container", () => {
  it("is answered by the cell, with its timing", () => {
    const { cell, other, config } = cellOf({
      ports: [{ name: "web", containerPort: 8080 }],
      startupProbe: { tcpSocket: { port: "web" }, failureThreshold: 30 },
      readinessProbe: { tcpSocket: { port: 8000, host: "" }, periodSeconds: 3 },
      livenessProbe: { tcpSocket: { port: 8000 }, timeoutSeconds: 5 },
    });
    expect(cell).toMatchObject({
      startupProbe: { httpGet: { path: "/tcpz/8080", port: 49980 }, periodSeconds: 1, failureThreshold: 300 },
      readinessProbe: { httpGet: { path: "/tcpz/8000", port: 49980 }, periodSeconds: 3 },
      livenessProbe: { httpGet: { path: "/tcpz/8000/live", port: 49980 }, timeoutSeconds: 5 },
    });
    expect(cell.readinessProbe).not.toHaveProperty("tcpSocket");
    expect(config.tcpProbePorts).toEqual([8080, 8000]);
    // Link still forwards them.
    expect(config.container.ports).toEqual([8000, 8080]);
    expect(other?.readinessProbe).toEqual({ tcpSocket: { port: 9000 } });
    expect(tcpProbeOf(cell.livenessProbe!)).toEqual({ port: 8000, isLiveness: true });
    expect(tcpProbeOf(cell.readinessProbe!)).toEqual({ port: 8000, isLiveness: false });
  });

  it.each([
    ["another host", { tcpSocket: { port: 80, host: "10.0.0.1" } }],
    ["an unknown port name", { tcpSocket: { port: "none" } }],
  ])("is left to the kubelet for %s", (_, livenessProbe) => {
    const { cell, config } = cellOf({ livenessProbe });
    expect(cell.livenessProbe).toEqual(livenessProbe);
    expect(config.tcpProbePorts).toBeUndefined();
  });
});

it("leaves probes of other kinds and the cell's own probe as they are", () => {
  const startupProbe = { httpGet: { path: "/tcpz/80", port: 80 }, periodSeconds: 1 };
  const { cell, config } = cellOf({ startupProbe });
  expect(cell.startupProbe).toEqual(startupProbe);
  expect(cell.readinessProbe).toMatchObject({ httpGet: { path: "/readyz", port: 49980 } });
  expect(config).not.toHaveProperty("tcpProbePorts");
  expect([tcpProbeOf(cell.startupProbe!), tcpProbeOf(cell.readinessProbe!)]).toEqual([undefined, undefined]);
});

it.each(["/tcpz/", "/tcpz/0", "/tcpz/08", "/tcpz/1e3", "/tcpz/123456", "/tcpz/80/", "/tcpz/80/lives", "/v1/tcpz/80"])(
  "takes %s for no probe",
  (path) => {
    expect(parseTcpProbePath(path)).toBeUndefined();
  },
);
