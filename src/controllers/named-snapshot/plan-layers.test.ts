import { describe, expect, it } from "vitest";
import { defaultSpec, StandInWorld } from "../../../test/setup/stand-in-builds.ts";
import { hasLayer, withinQuota } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshotSpec } from "../../api/kinds/named-snapshot.ts";
import type { RecipeStep } from "../../api/recipe/recipe.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { isRollbackPending, rollbackRequest } from "../../api/names/rollback-request.ts";
import { report, stalled } from "../../kube/conditions.ts";

const files: RecipeStep[] = [{ run: "a" }, { env: { A: "1" } }, { run: "b" }];
const started: RecipeStep[] = [{ start: "c" }, { waitFor: { port: 1 } }];

function worldWith(recipe: RecipeStep[], spec: Partial<NamedSnapshotSpec> = {}): StandInWorld {
  const world = new StandInWorld();
  world.spec = { ...defaultSpec, stepCache: "None", layers: true, recipe, ...spec };
  return world;
}

function layersIn(world: StandInWorld) {
  return [...world.checkpoints.values()].filter(({ status }) => hasLayer(status?.ramet?.parts));
}

/** Works until the next action of a kind, and finishes everything else. */
function until(world: StandInWorld, isReached: () => boolean): void {
  for (let round = 0; round < 60; round++) {
    world.step();
    if (isReached()) return;
    world.startBuilders();
    world.finishSteps();
    world.finishCheckpoints("Succeeded");
  }
  throw new Error(`not reached: ${JSON.stringify(world.status?.build)}`);
}

function origin(world: StandInWorld): string | undefined {
  return world.builders.at(-1)?.metadata.annotations?.[restoreFromAnnotations[0]];
}

describe("the layer of a build", () => {
  it("begins on a layer only if few others are below it, so that builds on builds do not add layers without end", () => {
    for (const [below, begins] of [
      [6, true],
      [7, false],
    ] as const) {
      const world = worldWith([...files]);
      world.settle();
      const [layer] = layersIn(world);
      const part = layer!.status!.ramet!.parts![0]!;
      part.layers = [
        ...Array.from({ length: below }, () => ({ ...part.layers![0]!, manifestDigest: `sha256:${"0".repeat(64)}` })),
        part.layers![0]!,
      ];
      world.spec = { ...world.spec, recipe: [...files, { run: "d" }] };
      until(world, () => world.builders.length > 0);
      expect(origin(world) === layer!.status!.checkpointId).toBe(begins);
    }
  });

  it("is captured after the last step of files, and the sandbox boots on it and continues", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.checkpoints.size > 0);
    const [layer] = world.checkpoints.values();
    expect(layer?.spec.persistentContents).toEqual(["filesystem"]);
    expect(layer?.metadata.annotations).toMatchObject({
      [annotations.asLayer]: "true",
      [annotations.stepDigest]: world.status?.steps?.[2]?.digest,
    });
    const [first] = world.builders;
    until(world, () => world.status?.build?.onLayers === true);
    expect(world.builders.map(({ metadata }) => metadata.uid)).toEqual([first?.metadata.uid]);
    expect(rollbackRequest(world.builders[0]!)?.to).toBe(layersIn(world)[0]?.status?.checkpointId);
    world.settle();
    expect(world.status).toMatchObject({ version: 1, progress: "5/5", build: { attempt: 1, onLayers: true } });
    expect(world.status?.steps?.map(({ cached }) => cached)).toEqual([false, false, false, false, false]);
    expect([...world.startedAt.values()]).toEqual([
      [0, 2],
      [3, 4],
    ]);
    expect(world.builders).toEqual([]);
  });

  it("is used by the next build, which starts on it", () => {
    const world = worldWith([...files, ...started]);
    world.settle();
    world.spec = { ...world.spec, recipe: [...files, { start: "d" }] };
    world.settle();
    expect(world.status).toMatchObject({ version: 2, build: { attempt: 1 } });
    expect(world.status?.build).not.toHaveProperty("onLayers");
    expect([...world.startedAt.values()].at(-1)).toEqual([3]);
    expect(layersIn(world)).toHaveLength(1);
  });

  it("is the base of the layer of a longer recipe", () => {
    const world = worldWith(files);
    world.settle();
    world.spec = { ...world.spec, recipe: [...files, { run: "c" }, ...started] };
    world.settle();
    expect(world.status).toMatchObject({ version: 2 });
    expect([...world.startedAt.values()].slice(-2)).toEqual([[3], [4, 5]]);
    expect(layersIn(world)).toHaveLength(2);
  });

  it("is the base of another attempt if the sandbox on it is lost", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.status?.steps?.[3]?.state === "Running");
    world.loseBuilder();
    until(world, () => world.status?.build?.attempt === 2 && world.builders.length > 0);
    world.settle();
    expect(world.status).toMatchObject({ version: 1, build: { attempt: 2 } });
    expect([...world.startedAt.values()].map((indexes) => indexes.filter((index) => index < 3))).toEqual([
      [0, 2],
      [],
      [],
    ]);
  });

  it("reports the programs that the boot on it has ended, but not those of the template's command", () => {
    const world = worldWith([...files, ...started]);
    world.programs = {
      ended: { processes: 3, names: ["redis-server", "sleep", "tail"] },
      running: { processes: 1, names: ["sleep"] },
    };
    until(world, () => world.builders.some(isRollbackPending));
    world.startBuilders();
    expect(world.step().transitions).toMatchObject([
      { reason: "ProgramsEnded", note: expect.stringContaining("ended redis-server, tail:") as string },
    ]);
    expect(world.step().transitions).toBeUndefined();
  });

  it("reports the device nodes that it lacks", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.builders.some(isRollbackPending));
    const [part] = layersIn(world)[0]?.status?.ramet?.parts ?? [];
    part!.leftOut = { count: 6, names: ["/a", "/b"] };
    world.startBuilders();
    expect(world.step().transitions).toMatchObject([
      { type: "Warning", reason: "DevicesLeftOut", note: expect.stringContaining("lacks 6 device nodes") as string },
    ]);
  });

  it("is the base of another sandbox if the one of the steps cannot boot on it", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.builders.some(isRollbackPending));
    world.refuseBoot();
    until(world, () => world.status?.build?.attempt === 2 && world.builders.length > 0);
    expect(origin(world)).toBe(layersIn(world)[0]?.status?.checkpointId);
    world.settle();
    expect(world.status).toMatchObject({ version: 1, build: { attempt: 2 } });
    expect([...world.startedAt.values()]).toEqual([
      [0, 2],
      [3, 4],
    ]);
  });

  it("is requested again if the controller stops before it has asked the sandbox to boot", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.status?.build?.onLayers === true);
    const [builder] = world.builders;
    world.builders = [{ ...builder!, metadata: { ...builder!.metadata, annotations: {} } }];
    world.settle();
    expect(world.status).toMatchObject({ version: 1, build: { attempt: 1, onLayers: true } });
    expect([...world.startedAt.values()].at(-1)).toEqual([3, 4]);
  });

  it("is captured again if it is deleted while a sandbox starts on it", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.status?.steps?.[3]?.state === "Running");
    world.checkpoints.clear();
    world.loseBuilder();
    world.settle();
    expect(world.status).toMatchObject({ version: 1, progress: "5/5" });
    expect(layersIn(world)).toHaveLength(1);
    expect([...world.startedAt.values()].at(-1)).toEqual([3, 4]);
  });

  it("is not needed by a build whose sandbox already runs on it", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.status?.steps?.[3]?.state === "Running");
    world.checkpoints.clear();
    world.settle();
    expect(world.status).toMatchObject({ version: 1, build: { attempt: 1 } });
  });

  it("fails the build if three captures of it fail", () => {
    const world = worldWith([...files, ...started]);
    for (let round = 0; round < 60; round++) {
      world.step();
      world.startBuilders();
      world.finishSteps();
      world.finishCheckpoints("Failed");
    }
    expect(world.status?.build).toMatchObject({ attempt: 3, failure: { reason: "CaptureFailed" } });
    expect(world.status?.message).toContain("Capturing the files after run b as a layer failed");
    expect(world.startedAt.size).toBe(3);
    expect([...world.checkpoints.keys(), ...world.builders]).toEqual([]);
  });

  it("fails the build at the first attempt if it exceeds a quota", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.checkpoints.size > 0);
    const [name, layer] = [...world.checkpoints][0]!;
    const condition = { type: withinQuota, status: "False" as const, reason: "r", message: "", lastTransitionTime: "" };
    world.checkpoints.set(name, { ...layer, status: { phase: "Failed", message: "over", conditions: [condition] } });
    world.settle();
    expect(world.status?.build).toMatchObject({ attempt: 1, failure: { reason: "QuotaExceeded" } });
  });

  it("fails the build at the first attempt if it is too large, and says what to do", () => {
    const world = worldWith([...files, ...started]);
    until(world, () => world.checkpoints.size > 0);
    const [name, layer] = [...world.checkpoints][0]!;
    const problem = { code: "CheckpointTooLarge", cause: "writing a layer failed", hint: "Delete large files" };
    const status = report({}, stalled("too large", problem), { now: new Date(0) });
    world.checkpoints.set(name, { ...layer, status: { ...status, phase: "Failed" } });
    world.settle();
    const { build, message } = world.status!;
    expect(build).toMatchObject({ attempt: 1, failure: { reason: "CaptureFailed" } });
    expect(build!.failure!.problem).toMatchObject({ code: "CheckpointTooLarge" });
    expect(message).toContain("Capturing the files after run b as a layer failed: writing a layer failed");
    expect(message).toContain("Delete large files; then run: ramet snapshot build");
    expect([...world.checkpoints.keys()]).toEqual([]);
  });

  it("holds the steps of a recipe without processes, also those of a later build", () => {
    const world = worldWith([{ run: "a" }]);
    world.settle();
    world.spec = { ...world.spec, recipe: [{ run: "a" }, { run: "b" }] };
    world.settle();
    expect(world.status).toMatchObject({ version: 2 });
    expect([...world.startedAt.values()]).toEqual([[0], [1]]);
    expect(layersIn(world)).toHaveLength(2);
  });

  it("is captured after a build that had none", () => {
    const world = worldWith([...files, ...started], { stepCache: "EveryStep", layers: false });
    world.settle();
    expect(layersIn(world)).toEqual([]);
    world.spec = { ...world.spec, layers: true };
    world.settle();
    expect(world.status).toMatchObject({ version: 2 });
    expect(layersIn(world)).toHaveLength(2);
  });

  it("is made by default, but not for a version that a release without layers has built until its recipe changes", () => {
    const world = worldWith([...files, ...started], { layers: undefined, stepCache: "EveryStep" });
    world.hasLayers = false;
    world.settle();
    expect(layersIn(world)).toEqual([]);
    world.hasLayers = true;
    world.settle();
    expect(world.status).toMatchObject({ version: 1, latestVersion: 1 });
    expect(world.startedAt.size).toBe(1);
    world.spec = { ...world.spec, recipe: [...files, { start: "d" }] };
    world.settle();
    expect(world.status).toMatchObject({ version: 2, build: { attempt: 1, onLayers: true } });
    world.spec = { ...world.spec, layers: false };
    world.settle();
    expect(world.status).toMatchObject({ version: 3, latestVersion: 3 });
  });

  it.each([1, 3])("is made by a build that a release without layers began and left in step %i", (left) => {
    const world = worldWith([...files, ...started], { layers: undefined, stepCache: "EveryStep" });
    world.hasLayers = false;
    until(world, () => world.status?.steps?.[left - 1]?.state === "Running");
    world.crash();
    world.hasLayers = true;
    world.settle();
    expect(world.status).toMatchObject({ version: 1, progress: "5/5", build: { attempt: 1, onLayers: true } });
    expect(world.builders).toEqual([]);
  });

  it("is below the files of a version without memory, which are a layer too", () => {
    const world = worldWith([...files, ...started], { contents: ["filesystem"] });
    world.settle();
    const version = world.status?.versions?.[0]?.checkpointName;
    expect(layersIn(world).map(({ metadata }) => metadata.name)).toContain(version);
    expect(layersIn(world)).toHaveLength(2);
    expect(world.status?.versions).toMatchObject([{ layers: true }]);
  });

  it("is the version itself without memory and processes, on which nothing boots and the next build begins", () => {
    const world = worldWith(files, { contents: ["filesystem"], stepCache: "LastStep" });
    world.settle();
    expect([...world.checkpoints.keys()]).toEqual([world.status?.versions?.[0]?.checkpointName]);
    expect(world.status?.build).not.toHaveProperty("onLayers");
    world.spec = { ...world.spec, recipe: [...files, { run: "d" }] };
    world.settle();
    expect([...world.startedAt.values()]).toEqual([[0, 2], [3]]);
    expect(layersIn(world)).toHaveLength(2);
  });
});

it.each<[string, RecipeStep[], Partial<NamedSnapshotSpec>]>([
  ["layers are not requested", [...files, ...started], { layers: false }],
  ["a process starts first", [...started, ...files], {}],
  ["there are only processes", started, {}],
  ["the steps before the first process change nothing", [{ env: { A: "1" } }, { workdir: "/" }, ...started], {}],
  ["there is no step", [], {}],
])("makes no layer if %s", (_, recipe, spec) => {
  const world = worldWith(recipe, spec);
  world.settle();
  expect(world.status).toMatchObject({ version: 1, versions: [{ layers: false }], build: { attempt: 1 } });
  expect(world.status?.build).not.toHaveProperty("onLayers");
  expect(world.startedAt.size).toBeLessThanOrEqual(1);
  expect(layersIn(world)).toEqual([]);
});
