import { hash } from "node:crypto";
import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { defaultQuota } from "../../api/quota/namespace-quota.ts";
import { pauseCheckpoint } from "../cluster/pause-checkpoint.ts";
import { isOfDisruption } from "./gather.ts";
import { CheckpointUsage } from "./usage.ts";

const digestOf = (name: string) => `sha256:${hash("sha256", name)}`;

const layer = (checkpointId: string, sizeBytes: number) => ({
  checkpointId,
  sizeBytes,
  manifestDigest: digestOf(checkpointId),
});

function stored(checkpointId: string, sizeBytes: number, layers: object[] = []): Checkpoint {
  const part = {
    backend: "cell",
    handle: digestOf(checkpointId),
    contents: ["filesystem"],
    cutAt: "2030-01-01T00:00:00Z",
    consistency: "atomic",
  };
  return Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { name: checkpointId, namespace: "t", uid: checkpointId, resourceVersion: "1", creationTimestamp: "" },
    spec: { sandboxName: "a" },
    status: {
      phase: "Succeeded",
      checkpointId,
      ramet: { sizeBytes, parts: [{ ...part, sizeBytes, layers }] },
    },
  });
}

const empty = { checkpointsIn: () => [], sandboxesIn: () => [] };

it("counts a layer that only running sandboxes need", () => {
  const layers = [layer("used", 10)];
  const sandbox = (name: string, ids: string[], layerBytes?: number[]) =>
    Sandbox.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name, namespace: "t", uid: name, resourceVersion: "1", creationTimestamp: "" },
      spec: {},
      status: { phase: "Running", ramet: { layers: ids, layerBytes } },
    });
  const sandboxes = [sandbox("a", ["gone", "used"], [30, 10]), sandbox("b", ["gone"], [30]), sandbox("old", ["older"])];
  const cache = { checkpointsIn: () => [stored("clone", 3, layers)], sandboxesIn: () => sandboxes };
  const usage = new CheckpointUsage(cache, { of: () => ({ ...defaultQuota, storeBytes: 100 }) });
  const { status: _, ...checkpoint } = stored("new", 0);
  const counted = { checkpoint, checkpointId: "new", capture: undefined, spec: { keepRunning: true }, source: {} };
  expect(usage.of(counted)).toEqual({ maxBytes: 100 - 43 });
});

it("counts layers once, also when their own checkpoints are gone", () => {
  const layers = [layer("gone", 10), layer("kept", 20)];
  const all = [stored("kept", 20, layers), stored("clone", 3, layers), stored("other", 4, [layer("gone", 10)])];
  const quotas = { of: () => ({ ...defaultQuota, storeBytes: 100 }) };
  const usage = new CheckpointUsage({ ...empty, checkpointsIn: () => all }, quotas);
  const { status: _, ...checkpoint } = stored("new", 0);
  expect(
    usage.of({ checkpoint, checkpointId: "new", capture: undefined, spec: { keepRunning: true }, source: {} }),
  ).toEqual({
    maxBytes: 100 - 37,
  });
});

it("adds nothing to the use of a quota for a checkpoint that shares the data of a paused sandbox", () => {
  const quotas = { of: () => ({ ...defaultQuota, storeBytes: 100 }) };
  const pause = stored("pause", 60);
  const usage = new CheckpointUsage({ ...empty, checkpointsIn: () => [pause] }, quotas);
  const admitted = (dataOf: string, labels: Record<string, string>) => {
    const { status } = stored(dataOf, 60);
    const { status: _, ...checkpoint } = stored("new", 60);
    const labelled = { ...checkpoint, metadata: { ...checkpoint.metadata, labels } };
    const capture = { state: "done" as const, value: { ...status?.ramet, parts: status?.ramet?.parts ?? [] } };
    return usage.of({ checkpoint: labelled, checkpointId: "new", capture, spec: { keepRunning: true }, source: {} });
  };
  const labels = { "ramet.dev/data-of": "pause" };
  expect(admitted("pause", labels)).toEqual({});
  // Users can set the label.
  const { problem } = admitted("new", labels) as { problem: RametError };
  expect(problem).toMatchObject({ code: "QuotaExceeded" });
  expect(problem.message).toContain("uses 120 B of 100 B");
});

it("takes a checkpoint that shares stored data although the quota of bytes is used up", () => {
  const quotas = { of: () => ({ ...defaultQuota, storeBytes: 50, checkpoints: 2 }) };
  const pause = stored("pause", 60);
  const all = [pause];
  const usage = new CheckpointUsage({ ...empty, checkpointsIn: () => all }, quotas);
  const { status: _, ...checkpoint } = stored("new", 0);
  const counted = { checkpoint, checkpointId: "new", spec: { keepRunning: true } };
  const before = { ...counted, capture: undefined };
  const code = "QuotaExceeded";
  expect(usage.of({ ...before, source: {} })).toMatchObject({ problem: { code } });
  expect(usage.of({ ...before, source: { dataId: "pause" } })).toEqual({});
  // The quota was lowered meanwhile, and the shared data adds nothing.
  const value = { ...pause.status?.ramet, parts: pause.status?.ramet?.parts ?? [] };
  const after = { ...counted, capture: { state: "done", value } as const };
  expect(usage.of({ ...after, source: { dataId: "pause" } })).toEqual({});
  all.push(stored("other", 1));
  expect(usage.of({ ...before, source: { dataId: "pause" } })).toMatchObject({ problem: { code } });
});

it("names the quota only where a quota limits the size of a checkpoint", () => {
  const explained = (storeBytes: number, code: "QuotaExceeded" | "CheckpointTooLarge") =>
    new CheckpointUsage(empty, { of: () => ({ ...defaultQuota, storeBytes }) }).explain(
      stored("new", 0),
      new RametError(code, "writing a layer failed"),
    ).message;
  expect(explained(50, "QuotaExceeded")).toContain("of its quota storeBytes");
  expect(explained(50, "CheckpointTooLarge")).toBe("writing a layer failed");
  expect(explained(Infinity, "QuotaExceeded")).toBe("writing a layer failed");
});

it("takes the checkpoint of a sandbox whose Pod is being ended although the quota is used up", () => {
  const quotas = { of: () => ({ ...defaultQuota, storeBytes: 50, checkpoints: 1 }) };
  const usage = new CheckpointUsage({ ...empty, checkpointsIn: () => [stored("other", 60)] }, quotas);
  const { status: _, ...given } = stored("new", 0);
  const sandbox = Sandbox.parse({
    apiVersion: given.apiVersion,
    kind: "Sandbox",
    metadata: { ...given.metadata, name: "a", uid: "uid-a" },
    status: { podInfo: { podUID: "uid-pod" } },
    spec: {},
  });
  const pod = Pod.parse({
    metadata: {
      ...given.metadata,
      name: "a",
      uid: "uid-pod",
      annotations: { "ramet.dev/on-disruption": "Migrate" },
      deletionTimestamp: "2030-01-01T00:00:00Z",
    },
    spec: { containers: [{ name: "main", image: "cell" }] },
    status: { phase: "Running" },
  });
  const { metadata, spec } = pauseCheckpoint(sandbox, [], true);
  const own = { ...given, spec, metadata: { ...given.metadata, ...metadata } } as Checkpoint;
  const labelled = { ...own, metadata: { ...own.metadata, ownerReferences: [] } };
  const renamed = { ...own, metadata: { ...own.metadata, name: "a-pause-other" } };
  const { deletionTimestamp: __, ...runs } = pod.metadata;
  const stays = { leaves: () => ({ leaving: false }) as const };
  const leaves = { leaves: () => ({ leaving: true, cause: "NodeLeaving", mark: "", urgent: false }) as const };
  const admitted = (
    checkpoint: Checkpoint,
    source = { sandbox, pod },
    departures: typeof stays | typeof leaves = stays,
  ) =>
    usage.of({
      checkpoint,
      checkpointId: "new",
      capture: undefined,
      spec: { keepRunning: false },
      source,
      isOfDisruption: isOfDisruption(checkpoint, source, departures),
    });
  expect(admitted(own)).toEqual({});
  expect(admitted(own, { sandbox, pod: { ...pod, metadata: runs } }, leaves)).toEqual({});
  for (const refused of [
    admitted(labelled),
    admitted(renamed),
    admitted(own, { sandbox, pod: { ...pod, metadata: runs } }),
  ])
    expect(refused).toMatchObject({ problem: { code: "QuotaExceeded" } });
});

it("bounds the automatic checkpoints of a namespace by its quota, in number and in bytes", () => {
  const automatic = (name: string): Checkpoint => {
    const one = stored(name, 60);
    return { ...one, metadata: { ...one.metadata, labels: { [labels.purpose]: "automatic" } } };
  };
  const { status: _, ...checkpoint } = automatic("new");
  const admitted = (all: Checkpoint[], quota: object) =>
    new CheckpointUsage({ ...empty, checkpointsIn: () => all }, { of: () => ({ ...defaultQuota, ...quota }) }).of({
      checkpoint,
      checkpointId: "new",
      capture: undefined,
      spec: { keepRunning: true },
      source: {},
    });
  const two = [automatic("one"), automatic("two")];
  const refused = { problem: { code: "QuotaExceeded" } };
  expect(admitted(two, { checkpoints: 2 })).toMatchObject(refused);
  expect(admitted(two, { checkpoints: 3 })).toEqual({});
  expect(admitted(two, { storeBytes: 120 })).toMatchObject(refused);
  expect(admitted(two, { storeBytes: 150 })).toEqual({ maxBytes: 30 });
});
