import fc from "fast-check";
import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { CollectionState, Garbage } from "./garbage.ts";
import { lastNeededAt, planCollection } from "./plan-collection.ts";

const agents = "agents.kruise.io/v1alpha1";
const digest = (step: number) => `sha256:${String(step).padStart(64, "0")}`;
const empty: CollectionState = {
  templates: [],
  checkpoints: [],
  sandboxes: [],
  sets: [],
  snapshots: [],
  claims: [],
  stepCacheBytes: 100,
  now: new Date("2026-02-01T00:00:00Z"),
};
const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "a",
  uid: `uid-${name}`,
  resourceVersion: "1",
  generation: 1,
  creationTimestamp: "2026-01-01T00:00:00Z",
  ...more,
});
const owned = (kind: string, name: string) => ({
  ownerReferences: [{ apiVersion: agents, kind, name, uid: `uid-${name}`, controller: true }],
});
const sandbox = (name: string, more: object = {}) =>
  Sandbox.parse({ apiVersion: agents, kind: "Sandbox", metadata: meta(name, more), spec: {} });
const template = (name: string, more: object = {}) =>
  SandboxTemplate.parse({ apiVersion: agents, kind: "SandboxTemplate", metadata: meta(name, more), spec: {} });
const set = (name: string, spec: object) =>
  SandboxSet.parse({ apiVersion: agents, kind: "SandboxSet", metadata: meta(name), spec: { replicas: 1, ...spec } });
const snapshot = (name: string, { status = {}, spec = {} }: { status?: object; spec?: object }) =>
  NamedSnapshot.parse({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: meta(name),
    spec: { from: { template: { name: "base" } }, recipe: [], ...spec },
    status: { observedGeneration: 1, ...status },
  });
/** The Checkpoint of a step, last needed on this day of January. */
const cache = (
  step: number,
  { day = 1, sizeBytes = 60, more = {} }: { day?: number; sizeBytes?: number; more?: object },
) =>
  Checkpoint.parse({
    apiVersion: agents,
    kind: "Checkpoint",
    metadata: meta(`step-${step}`, {
      labels: { "ramet.dev/purpose": "step" },
      annotations: {
        "ramet.dev/step-digest": digest(step),
        "ramet.dev/unneeded-since": `2026-01-${String(day).padStart(2, "0")}T00:00:00Z`,
      },
      ...more,
    }),
    spec: { sandboxName: "builder" },
    status: { phase: "Succeeded", checkpointId: `id-${step}`, ramet: { sizeBytes } },
  });
const step = (number: number) => ({ digest: digest(number), step: "run x", cached: false, state: "Succeeded" });
const names = (garbage: Garbage[]) => garbage.map(({ garbage: why, name }) => `${why} ${name}`);

/** Each way to refer to the checkpoint of step `n` and to no other. */
const referrers: ((n: number) => Partial<CollectionState>)[] = [
  (n) => ({ sandboxes: [sandbox("r", { annotations: { "ramet.dev/restore-from": `id-${n}` } })] }),
  (n) => ({ sandboxes: [sandbox("r", { annotations: { "ramet.dev/resolved-checkpoint": `id-${n}` } })] }),
  (n) => ({ sandboxes: [sandbox("r", { annotations: { "ramet.dev/rollback-to": `id-${n}` } })] }),
  (n) => ({ sandboxes: [{ ...sandbox("r"), status: { phase: "Running", ramet: { restoredFrom: `id-${n}` } } }] }),
  (n) => ({
    sandboxes: [
      {
        ...sandbox("r"),
        status: { phase: "Resuming", ramet: { rollback: { request: "r", checkpointId: `id-${n}` } } },
      },
    ],
  }),
  (n) => ({ sets: [set("r", { template: withOrigin(n) })] }),
  (n) => ({ templates: [{ ...template("r"), spec: { template: withOrigin(n) } }] }),
  (n) => ({ snapshots: [snapshot("r", { spec: { from: { checkpoint: { id: `id-${n}` } } } })] }),
  (n) => ({ snapshots: [snapshot("r", { status: { steps: [step(n)] } })] }),
  (n) => ({ snapshots: [snapshot("r", { status: { versions: [versionOf(n)] } })] }),
  // The controller has not observed its recipe yet, so it may need any step.
  () => ({ snapshots: [snapshot("r", { status: { observedGeneration: 0 } })] }),
];
const withOrigin = (n: number) => ({
  metadata: { annotations: { "checkpoint.alibabacloud.com/restore-from": `id-${n}` } },
});
const versionOf = (n: number) => ({
  version: 1,
  digest: digest(99),
  checkpointId: `id-${n}`,
  checkpointName: `step-${n}`,
  parent: "template/base",
  createdAt: "2026-01-01T00:00:00Z",
  sizeBytes: 1,
  buildMilliseconds: 1,
});

it("never deletes a checkpoint that a sandbox, a set, a template or a named snapshot refers to", () => {
  const caches = fc.uniqueArray(
    fc.record({ n: fc.nat(9), day: fc.integer({ min: 1, max: 9 }), isOrphan: fc.boolean() }),
    {
      selector: ({ n }) => n,
    },
  );
  fc.assert(
    fc.property(caches, fc.nat(9), fc.constantFrom(...referrers), fc.nat(300), (all, n, refer, stepCacheBytes) => {
      const checkpoints = all.map((one) =>
        cache(one.n, { day: one.day, more: one.isOrphan ? owned("NamedSnapshot", "gone") : {} }),
      );
      const planned = names(planCollection({ ...empty, checkpoints, stepCacheBytes, ...refer(n) }));
      expect(planned).not.toContain(`StepCache step-${n}`);
      expect(planned).not.toContain(`OwnerGone step-${n}`);
    }),
  );
});

it("deletes no more than necessary of the unneeded steps, the longest unneeded first, and then nothing more", () => {
  const caches = fc.uniqueArray(
    fc.record({ n: fc.nat(20), day: fc.integer({ min: 1, max: 9 }), sizeBytes: fc.nat(80), isNeeded: fc.boolean() }),
    { selector: ({ n }) => n },
  );
  fc.assert(
    fc.property(caches, fc.nat(500), (all, stepCacheBytes) => {
      const checkpoints = all.map((one) => cache(one.n, one));
      const needed = all.filter(({ isNeeded }) => isNeeded).map(({ n }) => n);
      const state = {
        ...empty,
        checkpoints,
        stepCacheBytes,
        snapshots: [snapshot("s", { status: { steps: needed.map(step) } })],
      };
      const deletedUids = new Set(planCollection(state).map(({ uid }) => uid));
      const [deleted, kept] = [true, false].map((isDeleted) =>
        checkpoints.filter(({ metadata }) => deletedUids.has(metadata.uid) === isDeleted),
      );
      const total = (some: Checkpoint[]) => some.reduce((sum, { status }) => sum + (status?.ramet?.sizeBytes ?? 0), 0);
      const removable = kept!.filter(
        ({ metadata, status }) => !needed.some((n) => metadata.name === `step-${n}`) && status!.ramet!.sizeBytes! > 0,
      );
      if (total(kept!) > stepCacheBytes) expect(removable).toEqual([]);
      for (const cache of deleted!) {
        for (const other of removable)
          expect(Date.parse(lastNeededAt(cache))).toBeLessThanOrEqual(Date.parse(lastNeededAt(other)));
      }
      const latest = deleted!.at(-1);
      if (latest !== undefined)
        expect(total(kept!) + Math.max(...deleted!.map((one) => total([one])))).toBeGreaterThan(stepCacheBytes);
      expect(planCollection({ ...state, checkpoints: kept! })).toEqual([]);
    }),
  );
});

/** The Checkpoint of a step whose files are a layer, or of a version, on the layers of these steps. */
const onLayers = (own: Checkpoint, steps: readonly number[]) => {
  const layers = steps.map((n) => ({ checkpointId: `id-${n}`, manifestDigest: digest(n), sizeBytes: 60 }));
  const part = { backend: "cell", contents: ["filesystem"], consistency: "atomic", cutAt: "2026-01-01T00:00:00Z" };
  const handle = own.metadata.annotations?.["ramet.dev/step-digest"] ?? digest(99);
  const parts = [{ ...part, handle, sizeBytes: own.status?.ramet?.sizeBytes ?? 0, layers }];
  return Checkpoint.parse({ ...own, status: { ...own.status, ramet: { ...own.status?.ramet, parts } } });
};

it("neither counts nor deletes a step whose layer something else holds, as that frees nothing", () => {
  const layer = onLayers(cache(1, {}), [1]);
  const version = onLayers(cache(9, { sizeBytes: 5, more: { labels: {}, annotations: {} } }), [1]);
  const planned = (state: Partial<CollectionState>) => names(planCollection({ ...empty, ...state }));
  expect(planned({ checkpoints: [layer], stepCacheBytes: 59 })).toEqual(["StepCache step-1"]);
  expect(planned({ checkpoints: [layer, version], stepCacheBytes: 59 })).toEqual([]);
  const running = { ...sandbox("r"), status: { phase: "Running" as const, ramet: { layers: ["id-1"] } } };
  expect(planned({ checkpoints: [layer], sandboxes: [running], stepCacheBytes: 59 })).toEqual([]);
  // The other 60 bytes are in the budget, so nothing is evicted in vain.
  expect(planned({ checkpoints: [layer, version, cache(2, { day: 9 })], stepCacheBytes: 60 })).toEqual([]);
});

it("deletes the upper one of two unneeded steps first, as only that frees a layer", () => {
  const [lower, upper] = [onLayers(cache(1, {}), [1]), onLayers(cache(2, { day: 9 }), [1, 2])];
  const planned = (stepCacheBytes: number) =>
    names(planCollection({ ...empty, checkpoints: [lower, upper], stepCacheBytes }));
  expect(planned(120)).toEqual([]);
  expect(planned(60)).toEqual(["StepCache step-2"]);
  expect(planned(59)).toEqual(["StepCache step-2", "StepCache step-1"]);
});

it("applies the budget to each namespace separately", () => {
  const more = { namespace: "b", uid: "uid-b" };
  const checkpoints = [cache(1, {}), cache(2, { more })];
  expect(planCollection({ ...empty, checkpoints })).toEqual([]);
  expect(names(planCollection({ ...empty, checkpoints, stepCacheBytes: 59 }))).toHaveLength(2);
});

it("keeps objects whose owner exists or is not of a Ramet kind", () => {
  const theirs = { ownerReferences: [{ apiVersion: "example.com/v1", kind: "Experiment", name: "e", uid: "e" }] };
  const both = {
    ownerReferences: [...owned("Sandbox", "gone").ownerReferences, ...owned("Sandbox", "here").ownerReferences],
  };
  const templates = [template("kept", owned("Checkpoint", "step-1")), template("left", owned("Checkpoint", "gone"))];
  const checkpoints = [
    cache(1, { more: owned("NamedSnapshot", "s") }),
    cache(2, { more: owned("NamedSnapshot", "gone") }),
    cache(3, { more: theirs, sizeBytes: 0 }),
    cache(4, { more: both, sizeBytes: 0 }),
    cache(5, { more: { ...owned("Sandbox", "gone"), deletionTimestamp: "2026-01-01T00:00:00Z" } }),
  ];
  const state = { ...empty, templates, checkpoints, sandboxes: [sandbox("here")], snapshots: [snapshot("s", {})] };
  const planned = planCollection(state);
  expect(names(planned)).toEqual(["OwnerGone step-2", "OwnerGone left"]);
  expect(planned[0]).toMatchObject({ bytes: 60, why: "belonged to NamedSnapshot gone, which no longer exists" });
});

it("deletes a template that its set has marked, unless another set refers to it", () => {
  const marked = { annotations: { "agents.kruise.io/cleanup-candidate": "true" }, ...owned("SandboxSet", "pool") };
  const templates = [
    template("old", marked),
    template("taken", marked),
    template("mine", { annotations: marked.annotations }),
  ];
  const sets = [set("pool", { template: {} }), set("other", { templateRef: { name: "taken" } })];
  expect(names(planCollection({ ...empty, templates, sets }))).toEqual(["UnusedTemplate old"]);
});

it("lists the ends of times to live, without deleting the objects", () => {
  const claim = (name: string, ttlAfterCompleted: string) =>
    SandboxClaim.parse({
      apiVersion: agents,
      kind: "SandboxClaim",
      metadata: meta(name),
      spec: { templateName: "pool", ttlAfterCompleted },
      status: { phase: "Completed", completionTime: "2026-01-01T00:00:00Z" },
    });
  expect(planCollection({ ...empty, claims: [claim("c", "60m"), claim("kept", "-1s")] })).toMatchObject([
    { garbage: "TimeToLive", kind: "SandboxClaim", name: "c", dueAt: "2026-01-01T01:00:00.000Z" },
  ]);
});

it("deletes a capture whose version was not requested for an hour, and keeps the source of a snapshot", () => {
  const source = (name: string, creationTimestamp: string) =>
    Checkpoint.parse({
      apiVersion: agents,
      kind: "Checkpoint",
      metadata: meta(name, { labels: { "ramet.dev/source-of": "py" }, creationTimestamp }),
      spec: { sandboxName: "s" },
      status: { phase: "Succeeded", checkpointId: name },
    });
  const checkpoints = [
    source("left", "2026-01-31T22:00:00Z"),
    source("named", "2026-01-31T22:00:00Z"),
    source("new", "2026-01-31T23:30:00Z"),
  ];
  const from = { checkpoint: { id: "named" } };
  const found = planCollection({ ...empty, checkpoints, snapshots: [snapshot("py", { spec: { from } })] });
  expect(found.map(({ name, garbage, why }) => [name, garbage, why])).toEqual([
    ["left", "UnnamedSource", "captured for a version of the snapshot py that does not exist"],
  ]);
});

it("deletes a tree a day after its upload, unless a recipe of the namespace has it", () => {
  const tree = (name: string, more: object = {}) =>
    Checkpoint.parse({
      apiVersion: agents,
      kind: "Checkpoint",
      metadata: meta(name, {
        labels: { "ramet.dev/purpose": "tree" },
        annotations: { "ramet.dev/tree": name.at(-1)?.repeat(64) },
        ...more,
      }),
      spec: { podName: "p" },
    });
  const recipe = [{ copy: { path: "/a", tree: "b".repeat(64) } }];
  const checkpoints = [tree("tree-a"), tree("tree-b"), tree("tree-c", { creationTimestamp: "2026-01-31T12:00:00Z" })];
  const elsewhere = tree("tree-b", { namespace: "other", uid: "other" });
  const state = {
    ...empty,
    checkpoints: [...checkpoints, elsewhere],
    snapshots: [snapshot("s", { spec: { recipe } })],
  };
  expect(planCollection(state).map(({ namespace, name }) => `${namespace}/${name}`)).toEqual([
    "a/tree-a",
    "other/tree-b",
  ]);
});
