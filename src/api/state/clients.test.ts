import { describe, expect, it } from "vitest";
import { followed } from "../../../provider/handlers/follow.ts";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { RametError } from "../../base/errors.ts";
import type { Cluster } from "../../cli/cluster/cluster.ts";
import { clusterObjects } from "../../cli/cluster/objects.ts";
import { sandboxSummary } from "../../client-api/dialects/agenttier/sandbox-view.ts";
import { listedSandbox } from "../../client-api/dialects/e2b/sandbox-view.ts";
import { stateOf } from "../../client-api/service/find-sandbox.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { awaitBuild, settlingMilliseconds } from "../../operations/await-build.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { awaitSet } from "../../operations/await-set.ts";
import { type AwaitedObjects, objectOf, type Settled, type Watched } from "../../operations/objects.ts";
import { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { SandboxSet } from "../kinds/sandbox-set.ts";
import { Sandbox } from "../kinds/sandbox.ts";
import { sandboxState } from "./sandbox.ts";

/**
 * What the command line, Pulumi and the dialects answer about the same statuses. A stand-in for the API server returns an object that
 * does not change; it does not prove how they follow one.
 */
const at = "2030-01-01T00:00:00Z";
const metadata = {
  name: "a",
  namespace: "n",
  uid: "00000000-0000-0000-0000-000000000001",
  resourceVersion: "1",
  creationTimestamp: at,
  generation: 1,
};
const condition = (type: string, status: "True" | "False", reason: string) => ({
  type,
  status,
  reason,
  message: "why",
  lastTransitionTime: at,
});
const ready = condition("Ready", "True", "PodReady");
const unready = condition("Ready", "False", "SandboxNotReady");
const refused = condition("Ready", "False", "StartContainerFailed");

function unchanging<T extends KubeObject>(object: T, clock: ManualClock): ResourceClient<T> {
  async function* watch({ signal }: { signal: AbortSignal }): AsyncGenerator<never> {
    if (signal.aborted) throw new RametError("Canceled", "canceled");
    await new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(new RametError("Canceled", "canceled"));
      });
    });
    yield* [];
  }
  const client = { clock, random: () => 0.5 };
  return { client, watch, find: () => Promise.resolve(object) } as unknown as ResourceClient<T>;
}

/** How a wait ends, and after how many seconds. */
type Ending = { is: "reached" | "waits" } | { is: "fails"; code: string; afterSeconds: number };

type Wait<T extends KubeObject> = (object: Watched<T>, timeoutMilliseconds: number) => Promise<Settled<T>>;

/** Runs the same wait as the command line and as Pulumi does, for five minutes. */
async function answers<T extends KubeObject>(kind: keyof AwaitedObjects, object: T, wait: Wait<T>): Promise<Ending[]> {
  const commandLine = (clock: ManualClock) => {
    const resource = unchanging(object, clock);
    const cluster = { [kind]: resource } as unknown as Cluster;
    return clusterObjects(memoryIo({ clock }), cluster)[kind] as unknown as Watched<T>;
  };
  const pulumi = (clock: ManualClock) => followed(unchanging(object, clock), () => undefined);
  return Promise.all([commandLine, pulumi].map((open) => ending(open, wait)));
}

async function ending<T extends KubeObject>(open: (clock: ManualClock) => Watched<T>, wait: Wait<T>): Promise<Ending> {
  const clock = new ManualClock();
  const over = { isOver: false };
  const done = wait(open(clock), 300_000)
    .then(objectOf)
    .then(
      (): Ending => ({ is: "reached" }),
      (error: unknown): Ending => {
        const { code } = RametError.from(error);
        const afterSeconds = clock.monotonicMilliseconds() / 1000;
        return code === "Timeout" ? { is: "waits" } : { is: "fails", code, afterSeconds };
      },
    )
    .finally(() => {
      over.isOver = true;
    });
  for (let seconds = 0; seconds <= 300; seconds += 5) {
    await new Promise(setImmediate);
    if (!over.isOver) clock.advance(5_000);
  }
  return done;
}

describe("a sandbox", () => {
  const [reached, waits] = [{ is: "reached" }, { is: "waits" }];
  const fails = (code: string, afterSeconds = 0) => ({ is: "fails", code, afterSeconds });
  const paused = { paused: true };
  const failedPause = condition("SandboxPaused", "False", "CheckpointFailed");
  it.each<[string, object, [string, object, string, string]]>([
    ["is new", {}, ["starting", waits, "running", "Creating"]],
    [
      "has an image that cannot be pulled",
      { status: { phase: "Pending", conditions: [refused] } },
      ["starting", fails("SandboxNotReady", 180), "running", "Creating"],
    ],
    ["runs", { status: { phase: "Running", conditions: [ready] } }, ["serving", reached, "running", "Running"]],
    [
      "runs and does not answer",
      { status: { phase: "Running", conditions: [unready] } },
      ["degraded", waits, "running", "Creating"],
    ],
    [
      "is being paused",
      { spec: paused, status: { phase: "Running", conditions: [ready] } },
      ["serving", fails("Conflict"), "paused", "Running"],
    ],
    [
      "runs on because its pause failed",
      { spec: paused, status: { phase: "Running", observedGeneration: 1, conditions: [ready, failedPause] } },
      ["serving", fails("Conflict"), "paused", "Stopped"],
    ],
    ["is paused", { spec: paused, status: { phase: "Paused" } }, ["paused", fails("Conflict"), "paused", "Stopped"]],
    ["resumes", { status: { phase: "Resuming" } }, ["starting", waits, "running", "Creating"]],
    [
      "failed",
      { status: { phase: "Failed", conditions: [unready] } },
      ["ended", fails("SandboxNotReady"), "404", "Error"],
    ],
    ["exited", { status: { phase: "Succeeded" } }, ["ended", fails("SandboxNotReady"), "404", "Error"]],
    [
      "is being deleted",
      { metadata: { ...metadata, deletionTimestamp: at }, status: { phase: "Running", conditions: [ready] } },
      ["ended", fails("Conflict"), "404", "Deleting"],
    ],
  ])("that %s", async (_, given, [meaning, waited, e2b, agentTier]) => {
    const sandbox = Sandbox.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata,
      spec: {},
      ...given,
    });
    const state = stateOf(sandbox);
    const isGone = state === "killing" || state === "ended";
    const wait: Wait<Sandbox> = (sandboxes, timeoutMilliseconds) =>
      awaitSandbox({ sandboxes }, sandbox, { timeoutMilliseconds, signal: new AbortController().signal });
    expect({
      meaning: sandboxState(sandbox).is,
      waited: await answers("sandboxes", sandbox, wait),
      e2b: isGone ? "404" : listedSandbox({ known: { template: () => undefined } }, sandbox).state,
      agentTier: sandboxSummary(sandbox, state).status,
    }).toEqual({ meaning, waited: [waited, waited], e2b, agentTier });
  });
});

describe("a build", () => {
  const settled = settlingMilliseconds / 1000;
  it.each([
    ["True", "RunningStep", { is: "waits" }],
    ["False", "Built", { is: "reached" }],
    ["False", "Pinned", { is: "reached" }],
    ["False", "StepFailed", { is: "fails", code: "StepFailed", afterSeconds: 0 }],
    ["False", "InputMissing", { is: "fails", code: "StepFailed", afterSeconds: settled }],
  ] as const)("whose condition Building is %s with the reason %s", async (status, reason, expected) => {
    const snapshot = NamedSnapshot.parse({
      apiVersion: "ramet.dev/v1alpha1",
      kind: "NamedSnapshot",
      metadata,
      spec: { from: { template: { name: "t" } } },
      status: { observedGeneration: 1, conditions: [condition("Building", status, reason)] },
    });
    const wait: Wait<NamedSnapshot> = (snapshots, timeoutMilliseconds) =>
      awaitBuild(snapshots, snapshot, { timeoutMilliseconds, signal: new AbortController().signal });
    expect(await answers("snapshots", snapshot, wait)).toEqual([expected, expected]);
  });
});

it("gives up on a set that does not start after the same time", async () => {
  const set = SandboxSet.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata,
    spec: { replicas: 1, templateRef: { name: "t" } },
    status: {
      observedGeneration: 1,
      replicas: 1,
      availableReplicas: 0,
      conditions: [condition("Ready", "False", "StartFailing")],
    },
  });
  const expected = { is: "fails", code: "SandboxNotReady", afterSeconds: settlingMilliseconds / 1000 };
  for (const goal of ["ready", "exact"] as const) {
    const wait: Wait<SandboxSet> = (sets, timeoutMilliseconds) =>
      awaitSet(sets, set, { goal, timeoutMilliseconds, signal: new AbortController().signal });
    expect(await answers("sets", set, wait)).toEqual([expected, expected]);
  }
});
