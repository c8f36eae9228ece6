import { describe, expect, it } from "vitest";
import type { CellState } from "../../api/wire/cell-api.ts";
import { podStatus, type Observation } from "./pod-status.ts";
import { NodePod, type NodePodStatus } from "./pod.ts";

const context = { hostIP: "127.0.0.1", now: new Date("2030-01-01T00:00:10.500Z") };

function pod(status?: NodePodStatus): NodePod {
  const metadata = {
    name: "a",
    namespace: "default",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: "2030-01-01T00:00:00Z",
  };
  const spec = { nodeName: "ramet-local", containers: [{ name: "main", image: "cell" }] };
  return NodePod.parse({ metadata, spec, ...(status && { status }) });
}

function running(cell: Partial<CellState>): Observation {
  const state = { phase: "running", ready: true, generation: 1, ...cell } as const;
  return { kind: "running", ip: "127.64.0.1", startedAt: "2030-01-01T00:00:09.123Z", cell: state };
}

function ready(status: NodePodStatus) {
  return status.conditions?.find(({ type }) => type === "Ready");
}

describe("the status of a Pod", () => {
  it("is Running and not Ready while the sandbox starts, and does not change between the steps of the start", () => {
    const first = podStatus(pod(), running({ phase: "preparing", ready: false }), context);
    expect(first).toMatchObject({ phase: "Running", podIP: "127.64.0.1", startTime: "2030-01-01T00:00:10Z" });
    expect(ready(first)).toMatchObject({
      status: "False",
      reason: "ContainersNotReady",
      message: "the sandbox is starting",
    });
    const later = { ...context, now: new Date("2030-01-01T00:00:20Z") };
    expect(podStatus(pod(first), running({ phase: "booting", ready: false }), later)).toEqual(first);
  });

  it("changes the transition time only of a condition that has changed", () => {
    const first = podStatus(pod(), running({ phase: "preparing", ready: false }), context);
    const second = podStatus(pod(first), running({}), { ...context, now: new Date("2030-01-01T00:00:30Z") });
    expect(ready(second)?.lastTransitionTime).toBe("2030-01-01T00:00:30Z");
    expect(second.conditions?.find(({ type }) => type === "Initialized")?.lastTransitionTime).toBe(
      "2030-01-01T00:00:10Z",
    );
    expect(second["startTime"]).toBe("2030-01-01T00:00:10Z");
  });

  it("has its conditions in the same order, whichever of them the binding has written", () => {
    const types = (status: NodePodStatus) => status.conditions?.map(({ type }) => type);
    const alone = podStatus(pod(), running({}), context);
    const reported = { status: "True", reason: "Set", message: "" } as const;
    const bound = { conditions: ["PodScheduled", "Other"].map((type) => ({ type, ...reported })) };
    const after = podStatus(pod(bound), running({}), context);
    expect(types(after)).toEqual([...(types(alone) ?? []), "Other"]);
    expect(types(podStatus(pod(after), running({ ready: false }), context))).toEqual(types(after));
  });

  it("says that no program was started, unless the programs were restored with the memory", () => {
    const probes = { started: false, ready: false, message: "the startup probe has not succeeded yet" };
    const status = (cell: Partial<CellState>) =>
      ready(podStatus(pod(), { ...running(cell), probes } as Observation, context));
    const message = expect.stringMatching(/^the startup probe .*; no program was started/) as string;
    expect(status({ lacksEntrypoint: true })).toMatchObject({ reason: "EntrypointMissing", message });
    const other = { reason: "ContainersNotReady", message: probes.message };
    expect(status({})).toMatchObject(other);
    expect(status({ lacksEntrypoint: true, memory: "loaded" })).toMatchObject(other);
  });

  it("keeps the fields of other writers", () => {
    const status = podStatus(pod({ qosClass: "Guaranteed" }), running({}), context);
    expect(status["qosClass"]).toBe("Guaranteed");
  });

  it("reports why a container waits until it runs", () => {
    const waiting = { kind: "waiting", reason: "ImagePullBackOff", message: "no such image" } as const;
    const first = podStatus(pod(), waiting, context);
    expect(first).toMatchObject({
      phase: "Pending",
      containerStatuses: [{ ready: false, state: { waiting: { reason: "ImagePullBackOff" } } }],
    });
    expect(first.podIP).toBeUndefined();
    expect(podStatus(pod(first), running({}), context).containerStatuses?.[0]?.state).toEqual({
      running: { startedAt: "2030-01-01T00:00:09Z" },
    });
  });

  it.each([
    [0, "Succeeded"],
    [3, "Failed"],
  ])("maps exit code %i to %s", (exitCode, phase) => {
    const ended = {
      kind: "ended",
      startedAt: "2030-01-01T00:00:09Z",
      finishedAt: "2030-01-01T00:00:11Z",
      exitCode,
      reason: exitCode === 0 ? "Completed" : "Error",
      message: "the entrypoint ended",
    } as const;
    const status = podStatus(pod(), ended, context);
    expect(status).toMatchObject({ phase, message: "the entrypoint ended" });
    expect(status.containerStatuses?.[0]?.state?.terminated).toMatchObject({
      exitCode,
      finishedAt: "2030-01-01T00:00:11Z",
    });
    expect(ready(status)?.status).toBe("False");
  });
});
