import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { Pod } from "../../api/schema/pod.ts";
import { type ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { anyNode } from "../nodes/plan-cpus.ts";
import { planStart } from "./plan-start.ts";
import type { SandboxState } from "./state.ts";

const startedAt = new Date("2030-01-01T00:00:00Z");
const meta = (name: string) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: startedAt.toISOString(),
});
const words = "restoring checkpoint c failed: its memory needs another image";
const refused = (code: ErrorCode): SandboxState["start"] => ({ state: "failed", error: new RametError(code, words) });
const pod = (status: object = { phase: "Running", podIP: "127.0.0.1" }, metadata: object = {}) =>
  Pod.parse({
    metadata: { ...meta("a"), ...metadata },
    spec: { containers: [{ name: "main", image: "cell" }] },
    status,
  });
const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python", command: ["run"] }] } });

interface Resume {
  start?: SandboxState["start"];
  pod: Pod | undefined;
  seconds?: number;
  status?: object;
}

function resume({ start, pod: its, seconds = 1, status }: Resume): SandboxState {
  const sandbox = Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...meta("a"), finalizers: ["agents.kruise.io/sandbox"] },
    spec: {},
    status: { phase: "Resuming", ...status },
  });
  return {
    sandbox,
    start,
    pod: its,
    template: { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] },
    origin: { kind: "checkpoint", source: { name: { namespace: "t", checkpointId: "c" }, parts: [] } },
    cpus: anyNode,
    lostClaims: [],
    egress: { policy: {}, digest: "" },
    credentials: { credentials: undefined, digest: "" },
    image: { state: "unresolved" },
    volumes: { claims: new Map() },
    slowInMilliseconds: 0,
    now: new Date(startedAt.getTime() + seconds * 1_000),
  } as unknown as SandboxState;
}

it("waits with a resume whose image was replaced under its name, and tries another Pod later", () => {
  const refusal = refused("ImageReplaced");
  const waiting = planStart(resume({ start: refusal, pod: pod() }));
  expect(waiting).toMatchObject({ actions: [], requeueAfterMilliseconds: 14_000, status: { phase: "Resuming" } });
  expect(waiting.status?.conditions).toContainEqual(
    expect.objectContaining({ type: "Stalled", status: "True", reason: "ImageReplaced" }),
  );
  const due = planStart(resume({ start: refusal, pod: pod(), seconds: 15 }));
  expect(due).toMatchObject({ actions: [{ do: "deletePod" }], status: { phase: "Resuming" } });
  const { status } = waiting;
  const deleting = pod({ phase: "Failed" }, { deletionTimestamp: startedAt.toISOString() });
  expect(planStart(resume({ pod: deleting, status: status ?? {} }))).toEqual({ actions: [] });
  expect(planStart(resume({ pod: undefined, status: status ?? {} })).actions).toMatchObject([{ do: "createPod" }]);
});

it("finds the refusal in the ended Pod if its answer was lost, or the process that received it has ended", () => {
  const message = JSON.stringify({ code: "ImageReplaced", message: words, retryable: false });
  const ended = (text: string) =>
    pod({
      phase: "Failed",
      containerStatuses: [{ name: "main", state: { terminated: { exitCode: 1, message: text } } }],
    });
  const lastError = new RametError("Unavailable", "the connection was reset", { retryable: true });
  const starts: SandboxState["start"][] = [
    undefined,
    { state: "running", failures: 1, lastError },
    refused("Unavailable"),
  ];
  for (const start of starts) {
    const waiting = planStart(resume({ start, pod: ended(message) }));
    expect(waiting).toMatchObject({ actions: [], status: { phase: "Resuming" }, requeueAfterMilliseconds: 14_000 });
    expect(planStart(resume({ start, pod: ended("killed") })).status?.phase).toBe("Failed");
  }
});

it("fails a resume that the cell refuses for another reason, and a start that is no resume", () => {
  expect(planStart(resume({ start: refused("NeedNotMet"), pod: pod() })).status?.phase).toBe("Failed");
  const status = { phase: "Pending" };
  expect(planStart(resume({ start: refused("ImageReplaced"), pod: pod(), status })).status?.phase).toBe("Failed");
});
