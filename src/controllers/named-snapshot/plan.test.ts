import fc from "fast-check";
import { expect, it } from "vitest";
import { defaultSpec, meta, StandInWorld } from "../../../test/setup/stand-in-builds.ts";
import { Checkpoint, type CheckpointPart } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshotSpec } from "../../api/kinds/named-snapshot.ts";
import { annotations } from "../../api/names/labels.ts";
import type { RecipeStep } from "../../api/recipe/recipe.ts";
import { findVersion } from "../../api/snapshot/snapshot-reference.ts";
import { findCondition } from "../../kube/conditions.ts";
import { stepCheckpointName, versionCheckpointName } from "./names.ts";
import type { DesiredVersion } from "./state.ts";

const defaults = defaultSpec;
const recipes: RecipeStep[][] = [
  [],
  [{ run: "a" }],
  [{ run: "a" }, { run: "b" }],
  [{ run: "a" }, { env: { A: "1" } }, { start: "c" }, { waitFor: { port: 1 } }],
  [{ run: "a" }, { run: "fails" }, { run: "b" }],
];

const memoryPart: CheckpointPart = {
  backend: "cell",
  handle: "sha256:00",
  contents: ["memory", "filesystem"],
  cutAt: "2030-01-01T00:00:00Z",
  sizeBytes: 1,
  consistency: "atomic",
};

const event = fc.constantFrom(
  "step",
  "step",
  "step",
  "steps",
  "steps",
  "checkpoints",
  "builders",
  "crash",
  "fail",
  "lose",
  "upgrade",
  "downgrade",
);
const request = fc.record({
  recipe: fc.constantFrom(...recipes),
  contents: fc.constantFrom<NamedSnapshotSpec["contents"]>(["memory", "filesystem"], ["filesystem"]),
  stepCache: fc.constantFrom<NamedSnapshotSpec["stepCache"]>("EveryStep", "LastStep", "None"),
  keepVersions: fc.constantFrom(1, 2, 5),
  suspend: fc.constantFrom(false, false, false, true),
  layers: fc.constantFrom(undefined, true, false),
});
const history = fc.array(fc.oneof({ weight: 8, arbitrary: event }, { weight: 1, arbitrary: request }), {
  maxLength: 60,
});

function simulate(world: StandInWorld, name: typeof event extends fc.Arbitrary<infer T> ? T : never): void {
  const events = {
    upgrade: () => {
      world.cellImage = "cell:2";
    },
    downgrade: () => {
      world.cellImage = "cell:1";
    },
    step: () => void world.step(),
    steps: () => world.finishSteps(),
    checkpoints: () => world.finishCheckpoints("Succeeded"),
    fail: () => world.finishCheckpoints("Failed"),
    builders: () => world.startBuilders(),
    crash: () => {
      world.crash();
    },
    lose: () => {
      world.loseBuilder();
    },
  };
  events[name]();
}

function checkAlways(world: StandInWorld): void {
  const { status } = world;
  const versions = status?.versions ?? [];
  const numbers = versions.map(({ version }) => version);
  expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
  expect(status?.latestVersion ?? 0).toBeGreaterThanOrEqual(Math.max(0, ...numbers));
  if (status?.version !== undefined) {
    const current = versions.find(({ version }) => version === status.version);
    expect(current).toMatchObject({ digest: status.digest, checkpointId: status.checkpointId });
    expect(world.checkpoints.get(current!.checkpointName)?.status?.phase).toBe("Succeeded");
  }
  // Commands run in order, and each at most once in one sandbox.
  for (const startedAt of world.startedAt.values())
    expect(startedAt).toEqual([...new Set(startedAt)].sort((a, b) => a - b));
}

it("reaches the desired version or reports a failure after any order of results, failures and crashes", () => {
  fc.assert(
    fc.property(history, (events) => {
      const world = new StandInWorld();
      for (const one of events) {
        if (typeof one === "string") simulate(world, one);
        else world.spec = { ...defaults, ...one };
        checkAlways(world);
      }
      const before = world.status?.version;
      world.spec = { ...world.spec, suspend: false };
      world.settle();
      checkAlways(world);
      const { status } = world;
      const { digest } = world.state().desired as DesiredVersion;
      const served = status?.digest === digest.digest;
      if (!served) {
        expect(status?.build).toMatchObject({ digest: digest.digest, failure: {} });
        expect(status?.version).toBe(before);
        expect(status?.message).toBeTruthy();
      }
      expect(world.builders).toEqual([]);
      if (!served) return;
      const current = status.versions?.find(({ version }) => version === status.version);
      const isMemory = world.spec.contents.includes("memory");
      const upgradeFailed = status.build?.upgrade !== undefined && status.build.failure !== undefined;
      if (!upgradeFailed) {
        expect(current?.engine).toBe(isMemory ? world.cellImage : undefined);
        expect(status).not.toHaveProperty("message");
      }
      world.now = new Date(world.now.getTime() + 3_600_000);
      world.settle();
      const inputs = world.status?.versions?.map(({ digest }) => digest) ?? [];
      expect(new Set(inputs).size).toBeLessThanOrEqual(world.spec.keepVersions);
    }),
    { numRuns: 400 },
  );
}, 30_000);

it("deletes everything but retained versions when the snapshot is deleted", () => {
  fc.assert(
    fc.property(history, fc.constantFrom("Retain" as const, "Delete" as const), (events, deletionPolicy) => {
      const world = new StandInWorld();
      for (const one of events) {
        if (typeof one === "string") simulate(world, one);
        else world.spec = { ...defaults, ...one };
      }
      const versions = world.state().snapshot.status?.versions ?? [];
      const cloneable = versions.filter(
        ({ checkpointName }) => world.checkpoints.get(checkpointName)?.status?.phase === "Succeeded",
      );
      world.spec = { ...world.spec, deletionPolicy };
      world.isDeleted = true;
      const removesFinalizer = () => world.step().actions.some((action) => action.do === "removeFinalizer");
      expect([removesFinalizer(), removesFinalizer()]).toContain(true);
      expect(world.builders).toEqual([]);
      const kept = deletionPolicy === "Retain" ? cloneable.map(({ checkpointName }) => checkpointName) : [];
      expect([...world.checkpoints.keys()].sort()).toEqual(kept.sort());
    }),
    { numRuns: 200 },
  );
});

it("marks and keeps the captured step that the recipe no longer has, and unmarks it when the recipe has it again", () => {
  const world = new StandInWorld();
  const marked = () =>
    [...world.checkpoints.values()]
      .filter(({ metadata }) => metadata.annotations?.[annotations.unneededSince] !== undefined)
      .map(({ metadata }) => metadata.name);
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "b" }] };
  world.settle();
  const step = stepCheckpointName("s", world.status!.steps![0]!.digest, "cell:1");
  expect(marked()).toEqual([]);
  world.spec = { ...defaults, recipe: [{ run: "x" }] };
  world.settle();
  expect(marked()).toEqual([step]);
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "c" }] };
  world.settle();
  expect(marked()).toEqual([]);
  expect(world.status?.steps?.map(({ cached }) => cached)).toEqual([true, false]);
});

it("runs only the steps after the longest captured prefix in a rebuild", () => {
  const world = new StandInWorld();
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "b" }, { run: "c" }] };
  world.settle();
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "b" }, { run: "d" }] };
  world.settle();
  expect(world.status).toMatchObject({ version: 2, progress: "3/3" });
  expect(world.status?.steps?.map(({ cached }) => cached)).toEqual([true, true, false]);
  expect([...world.startedAt.values()]).toEqual([[0, 1, 2], [2]]);
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "b" }, { run: "c" }] };
  world.settle();
  expect(world.status).toMatchObject({ version: 1, latestVersion: 2 });
  expect(world.startedAt.size).toBe(2);
});

it("gives up a step during which the controllers stop three times within minutes, until another build is requested", () => {
  const interrupt = (world: StandInWorld, times: number, minutes: number): void => {
    world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "b" }] };
    while (world.status?.steps?.[1]?.state !== "Running") {
      world.step();
      world.startBuilders();
      world.finishCheckpoints("Succeeded");
      if (world.status?.steps?.[1]?.state !== "Running") world.finishSteps();
    }
    for (let time = 0; time < times; time++) {
      world.crash();
      world.now = new Date(world.now.getTime() + minutes * 60_000);
      world.step();
    }
  };
  const world = new StandInWorld();
  interrupt(world, 2, 9);
  expect(world.status?.build).toMatchObject({ attempt: 1, interruptions: { step: 2, count: 2 } });
  world.settle();
  expect(world.status?.version).toBe(1);
  const givenUp = new StandInWorld();
  interrupt(givenUp, 3, 9);
  givenUp.settle();
  expect(givenUp.status?.build?.failure).toMatchObject({ reason: "ControllersStopped", step: 2 });
  expect(givenUp.status?.message).toContain("stopped 3 times while the build was in step 2 of 2 (run b)");
  expect(givenUp.builders).toEqual([]);
  const updated = new StandInWorld();
  interrupt(updated, 5, 11);
  expect(updated.status?.build).toMatchObject({ interruptions: { count: 1 } });
});

it("tries a failing recipe once", () => {
  const world = new StandInWorld();
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "fails" }] };
  world.settle();
  world.settle();
  expect(world.status?.build).toMatchObject({ attempt: 1, failure: { reason: "StepFailed", step: 2 } });
  expect([...world.startedAt.values()]).toEqual([[0, 1]]);
});

it("leaves another Checkpoint with the version's name alone, and reports it", () => {
  const world = new StandInWorld();
  world.spec = { ...defaults, recipe: [{ run: "a" }] };
  const name = versionCheckpointName("s", (world.state().desired as DesiredVersion).digest.digest);
  const foreign = Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: meta(name),
    spec: { podName: "a" },
    status: { phase: "Succeeded", checkpointId: "other" },
  });
  world.checkpoints.set(name, foreign);
  world.settle();
  expect(world.status).not.toHaveProperty("version");
  expect(world.status?.message).toContain(`the Checkpoint ${name} exists and is not from this build`);
  expect(world.checkpoints.get(name)).toBe(foreign);
});

it("warns when a version is built whose clones repeat random numbers", () => {
  const world = new StandInWorld();
  world.spec = { ...defaults, contents: ["memory", "filesystem"], recipe: [{ run: "a" }] };
  const name = versionCheckpointName("s", (world.state().desired as DesiredVersion).digest.digest);
  while (!world.checkpoints.has(name)) {
    world.step();
    world.startBuilders();
    world.finishSteps();
  }
  const checkpoint = Checkpoint.parse(world.checkpoints.get(name));
  const part = { ...memoryPart, randomPrograms: ["node"] };
  const status = { phase: "Succeeded", checkpointId: "c", ramet: { parts: [part] } };
  world.checkpoints.set(name, Checkpoint.parse({ ...checkpoint, status }));
  const { transitions = [] } = world.step();
  expect(transitions.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
    "Normal VersionBuilt",
    "Warning RandomNumbersRepeat",
  ]);
  expect(transitions[1]?.note).toContain(
    "Clones of version 1 repeat the random numbers of programs that run in it: node.",
  );
  expect(world.status?.versions?.[0]).toMatchObject({ randomPrograms: ["node"] });
});

it("rebuilds a version under a new number when its Checkpoint was deleted", () => {
  const world = new StandInWorld();
  world.spec = { ...defaults, recipe: [{ run: "a" }] };
  world.settle();
  for (let version = 2; version < 7; version++) {
    world.checkpoints.clear();
    world.step();
    expect(world.status).not.toHaveProperty("version");
    expect(world.status?.conditions).toContainEqual(expect.objectContaining({ type: "Ready", status: "False" }));
    world.settle();
    expect(world.status).toMatchObject({ version, latestVersion: version });
  }
});

it("keeps a pinned version current without building, and follows the recipe again without the pin", () => {
  const world = new StandInWorld();
  for (const run of ["a", "b"]) {
    world.spec = { ...defaults, recipe: [{ run }] };
    world.settle();
  }
  world.spec = { ...defaults, recipe: [{ run: "c" }], pinnedVersion: 1 };
  world.settle();
  expect(world.status).toMatchObject({ version: 1, latestVersion: 2 });
  expect(world.status?.conditions).toContainEqual(
    expect.objectContaining({ type: "Ready", status: "True", message: "Version 1 is current" }),
  );
  world.spec = { ...world.spec, pinnedVersion: 9 };
  world.settle();
  expect(world.status).toMatchObject({ version: 1 });
  expect(world.status?.message).toContain(
    "The pinned version 9 no longer exists; set spec.pinnedVersion to a kept version (1, 2), or remove it",
  );
  world.spec = { ...defaults, recipe: [{ run: "c" }] };
  world.settle();
  expect(world.status).toMatchObject({ version: 3 });
});

function built(spec: Partial<NamedSnapshotSpec> = {}): StandInWorld {
  const world = new StandInWorld();
  world.spec = { ...defaults, recipe: [{ run: "a" }, { run: "b" }], ...spec };
  world.settle();
  expect(world.status).toMatchObject({ version: 1, versions: [{ engine: "cell:1" }] });
  return world;
}

function engineCondition({ status }: StandInWorld) {
  const { status: value, reason, message } = findCondition(status?.conditions, "EngineCurrent") ?? {};
  return { value, reason, message };
}

it("captures the current version again after an upgrade, and keeps the earlier one current until then", () => {
  const world = built();
  world.cellImage = "cell:2";
  const seen = new Set<number | undefined>();
  for (let round = 0; round < 60; round++) {
    world.step();
    seen.add(world.status?.version);
    world.startBuilders();
    world.finishSteps();
    world.finishCheckpoints("Succeeded");
    if (world.status?.version === 1)
      expect(engineCondition(world)).toMatchObject({ value: "False", reason: "Upgrading" });
  }
  expect([...seen]).toEqual([1, 2]);
  expect(engineCondition(world)).toMatchObject({ value: "True" });
  const [first, second] = world.status?.versions ?? [];
  expect(second).toMatchObject({ version: 2, engine: "cell:2", replaces: [1], digest: first?.digest });
  // Each step ran again: its captured state has the earlier engine, and was deleted.
  expect([...world.startedAt.values()]).toEqual([
    [0, 1],
    [0, 1],
  ]);
  const engines = [...world.checkpoints.values()].map(({ status }) => status?.ramet?.engine);
  expect(engines.sort()).toEqual(["cell:1", "cell:2", "cell:2"]);
});

it("deletes the replaced version an hour later, unless something refers to it, and its number refers to the new one", () => {
  const world = built({ keepVersions: 1 });
  world.cellImage = "cell:2";
  world.settle();
  const versions = () => world.status?.versions?.map(({ version }) => version);
  expect(versions()).toEqual([1, 2]);
  world.referrers = [[1, ["Sandbox a"]]];
  world.now = new Date(world.now.getTime() + 3_600_000);
  world.settle();
  expect(versions()).toEqual([1, 2]);
  const version = (reference: object) => findVersion(world.state().snapshot, { name: "s", ...reference }).version;
  const digest = world.status?.digest ?? "";
  expect([version({ version: 1 }), version({ digest }), version({})]).toEqual([1, 2, 2]);
  world.referrers = [];
  world.settle();
  expect(versions()).toEqual([2]);
  expect([version({ version: 1 }), version({ digest }), version({ version: 2 })]).toEqual([2, 2, 2]);
  expect(() => version({ version: 3 })).toThrow("has no version s@3");
});

it("serves the earlier version after a downgrade within the hour, without building", () => {
  const world = built();
  world.cellImage = "cell:2";
  world.settle();
  world.cellImage = "cell:1";
  world.settle();
  expect(world.status).toMatchObject({ version: 1, latestVersion: 2 });
});

it("leaves the engine of a snapshot with engineUpgrade Manual alone until a build is requested", () => {
  const world = built({ engineUpgrade: "Manual" });
  world.cellImage = "cell:2";
  world.settle();
  expect(world.status).toMatchObject({ version: 1, latestVersion: 1 });
  expect(engineCondition(world)).toMatchObject({
    reason: "ManualUpgrade",
    message: expect.stringContaining("ramet snapshot build s -n t") as string,
  });
  world.request = "now";
  world.settle();
  expect(world.status).toMatchObject({ version: 2, versions: [{}, { engine: "cell:2", replaces: [1] }] });
});

it.each([
  [{ engines: { source: "bound" as const } }, {}, "SourceBound"],
  [{ engines: { source: "waiting" as const } }, {}, "SourceUpgrading"],
  [{ engines: { source: "current" as const, wait: "2 of 2" } }, {}, "UpgradeWaiting"],
  [{}, { suspend: true }, "Suspended"],
  [{}, { pinnedVersion: 1 }, "Pinned"],
])("does not capture a version again while an obstacle remains, and names it (%j %j)", (facts, spec, reason) => {
  const world = built();
  world.cellImage = "cell:2";
  Object.assign(world, facts);
  world.spec = { ...world.spec, ...spec };
  world.settle();
  expect(world.status).toMatchObject({ version: 1, latestVersion: 1 });
  expect(engineCondition(world)).toMatchObject({ value: "False", reason });
});

it("starts an upgrade again when another upgrade interrupts it", () => {
  const world = built();
  world.cellImage = "cell:2";
  world.step();
  world.step();
  world.startBuilders();
  world.step();
  expect(world.status?.build?.upgrade).toEqual({ of: 1, cellImage: "cell:2" });
  world.cellImage = "cell:3";
  world.settle();
  expect(world.status).toMatchObject({ version: 2, versions: [{}, { engine: "cell:3", replaces: [1] }] });
});

it("reports an upgrade that failed, keeps the version, and repeats it after an hour", () => {
  const world = built({ recipe: [] });
  world.cellImage = "cell:2";
  for (let round = 0; round < 30; round++) {
    world.step();
    world.startBuilders();
    world.finishCheckpoints("Failed");
  }
  expect(world.status).toMatchObject({ version: 1, build: { failure: { reason: "CaptureFailed" } } });
  expect(engineCondition(world)).toMatchObject({ reason: "UpgradeFailed" });
  world.now = new Date(world.now.getTime() + 3_600_000);
  world.settle();
  expect(world.status).toMatchObject({ version: 2 });
});
