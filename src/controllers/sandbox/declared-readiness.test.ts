import { describe, expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { Pod } from "../../api/schema/pod.ts";
import { findCondition } from "../../kube/conditions.ts";
import { unreadySince } from "./plan-running.ts";
import { unreadyMessage } from "../cluster/pod-facts.ts";
import type { SandboxState } from "./state.ts";
import { running } from "./status.ts";

const now = new Date("2030-01-01T00:00:00Z");
const metadata = { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: now.toISOString() };
const sandbox = Sandbox.parse({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec: {} });
const cellProbe = { httpGet: { path: "/readyz", port: 49980 } };
const ownProbe = { httpGet: { path: "/health", port: 49999 } };

/** The Ready condition when the sandbox has responded, and the node reports the Pod as not ready. */
function readyCondition(spec: object, container: object = {}) {
  const pod = Pod.parse({
    metadata,
    spec: { containers: [{ name: "main", image: "cell", readinessProbe: cellProbe, ...container }], ...spec },
    status: { conditions: [{ type: "Ready", status: "False", message: "the startup probe failed: HTTP status 500" }] },
  });
  const template = { problem: undefined };
  const state = { sandbox, now, template, egress: { policy: { allow: [], deny: [], default: "allow" } } };
  const status = running(state as unknown as SandboxState, pod, { phases: {} });
  return findCondition(status.conditions, "Ready");
}

describe("a sandbox that responds", () => {
  it("is ready at once if its template declares no probes and no other containers", () => {
    expect(readyCondition({})).toMatchObject({ status: "True", reason: "PodReady" });
    expect(readyCondition({ initContainers: [{ name: "init" }] })).toMatchObject({ status: "True" });
  });

  it.each([
    ["a startup probe", {}, { startupProbe: ownProbe }],
    ["a readiness probe", {}, { readinessProbe: ownProbe }],
    ["a sidecar", { initContainers: [{ name: "sidecar", restartPolicy: "Always" }] }, {}],
  ])("waits for the node if its template has %s, and reports the node's problem", (_, spec, container) => {
    const message = "The Pod is not Ready: the startup probe failed: HTTP status 500";
    expect(readyCondition(spec, container)).toMatchObject({ status: "False", reason: "SandboxNotReady", message });
  });
});

describe("a ready sandbox whose Pod reports that it is not ready", () => {
  const instant = "2030-01-01T00:00:10Z";
  const at = (seconds: number) => `2030-01-01T00:00:${seconds}Z`;
  const podThat = (startedAt: string | undefined, unreadyAt: string) =>
    Pod.parse({
      metadata,
      spec: { containers: [{ name: "main", image: "cell" }] },
      status: {
        conditions: [{ type: "Ready", status: "False", message: "a probe failed", lastTransitionTime: unreadyAt }],
        ...(startedAt !== undefined && {
          containerStatuses: [{ name: "main", state: { running: { startedAt } } }],
        }),
      },
    });

  it("becomes unready if the node found it ready before", () => {
    expect(unreadySince(podThat(at(20), at(25)), instant)).toBe("a probe failed");
    expect(unreadySince(podThat(undefined, at(25)), instant)).toBe("a probe failed");
  });

  it("stays ready if the node has not probed it yet, also with a clock that is ahead of the controller's", () => {
    expect(unreadySince(podThat(at(10), at(10)), instant)).toBeUndefined();
    expect(unreadySince(podThat(at(21), at(20)), instant)).toBeUndefined();
    expect(unreadySince(podThat(at(20), at(20)), instant)).toBeUndefined();
  });

  it("becomes unready in the second in which it became ready, if the node decides about its readiness", () => {
    const declared = podThat(undefined, instant);
    expect(unreadySince(declared, instant)).toBeUndefined();
    declared.spec.containers[0]!.readinessProbe = ownProbe;
    expect(unreadySince(declared, instant)).toBe("a probe failed");
    expect(unreadySince(declared, at(11))).toBeUndefined();
  });

  it("stays ready if the node reports it sooner than its probes can fail", () => {
    expect(unreadySince(podThat(at(20), at(22)), instant)).toBeUndefined();
    expect(unreadySince(podThat(at(20), at(23)), instant)).toBe("a probe failed");
    const declared = podThat(at(20), at(21));
    declared.spec.containers[0]!.readinessProbe = ownProbe;
    expect(unreadySince(declared, instant)).toBe("a probe failed");
  });
});

it.each([
  ["startup", { startupProbe: ownProbe, readinessProbe: cellProbe }, false],
  ["readiness", { startupProbe: ownProbe, readinessProbe: ownProbe }, true],
])("names the %s probe if a kubelet names only the container", (kind, probes, started) => {
  const pod = Pod.parse({
    metadata,
    spec: { containers: [{ name: "main", image: "cell", ...probes }] },
    status: {
      conditions: [{ type: "Ready", status: "False", message: "containers with unready status: [main]" }],
      containerStatuses: [{ name: "main", ready: false, started, state: { running: {} } }],
    },
  });
  expect(unreadyMessage(pod)).toContain(
    `The Pod is not Ready: the ${kind} probe of the container main has not succeeded`,
  );
});
