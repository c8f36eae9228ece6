import { describe, expect, it } from "vitest";
import { NodePod } from "./pod.ts";
import { unsupported } from "./unsupported.ts";

const container = { name: "main", image: "cell", env: [{ name: "RAMET_CELL", value: "{}" }] };

function pod(spec: object): NodePod {
  const metadata = {
    name: "a",
    namespace: "default",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: "2030-01-01T00:00:00Z",
  };
  return NodePod.parse({ metadata, spec: { containers: [container], ...spec } });
}

describe("unsupported fields of a Pod", () => {
  it("are none in a sandbox's Pod", () => {
    const readinessProbe = { httpGet: { path: "/readyz", port: 49980 } };
    const volumes = [
      { name: "root", image: { reference: "python" } },
      { name: "tmp", emptyDir: {} },
    ];
    expect(unsupported(pod({ containers: [{ ...container, readinessProbe }], volumes }))).toBeUndefined();
  });

  it.each([
    [
      "spec.initContainers[0].startupProbe.tcpSocket.host",
      { initContainers: [{ name: "init", startupProbe: { tcpSocket: { port: 80, host: "example.org" } } }] },
    ],
    [
      "spec.containers[1].lifecycle.preStop.tcpSocket",
      { containers: [container, { name: "sidecar", image: "x", lifecycle: { preStop: { tcpSocket: { port: 80 } } } }] },
    ],
    ["spec.containers[0].env", { containers: [{ name: "main", image: "nginx" }] }],
    [
      "spec.volumes[1].hostPath",
      {
        volumes: [
          { name: "a", emptyDir: {} },
          { name: "b", hostPath: { path: "/" } },
        ],
      },
    ],
    [
      "spec.containers[0].readinessProbe.httpGet.host",
      { containers: [{ ...container, readinessProbe: { httpGet: { port: 80, host: "example.org" } } }] },
    ],
  ])("include %s", (field, spec) => {
    expect(unsupported(pod(spec))).toMatch(new RegExp(`^${field.replace(/[[\].]/g, "\\$&")} `));
  });
});
