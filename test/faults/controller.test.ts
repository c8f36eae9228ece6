import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { controllerOf } from "../../src/kube/object.ts";
import { namespace } from "../bench/local-cluster.ts";
import { firstAnswer } from "../bench/workload.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { claimRequest, cloneRequest, setRequest, snapshotRequest, templateRequest } from "./controller-requests.ts";
import { WatchedObjects } from "./watched-objects.ts";

/** The controller makes many things of one wish, one after another; after each of them it may be gone. */
describe("the controller, killed at each step of", () => {
  let world: ClusterWorld;
  let seen: WatchedObjects;
  let number = 0;

  beforeAll(async () => {
    world = await ClusterWorld.open(0);
    seen = await WatchedObjects.open(world.cluster.cluster.client);
    await world.cluster.cluster.templates.create(templateRequest("base"));
  });
  afterAll(async () => {
    await seen.close();
    await world.close();
  });
  afterEach(async () => {
    await world.whole();
    await world.removeAll();
    await seen.until("no sandbox, no Pod and no checkpoint is left", () => {
      return seen.sandboxes.length === 0 && seen.pods.length === 0 && seen.checkpoints.length === 0;
    });
    await world.sweepStore();
    await expect.poll(() => world.more(), { interval: 100, timeout: 30_000 }).toEqual({});
  });

  const killController = (): Promise<void> => world.kill("controller", "");

  const pooled = (set: string): Sandbox[] => seen.sandboxes.filter((sandbox) => controllerOf(sandbox)?.name === set);
  const isLeaving = ({ metadata }: Sandbox): boolean =>
    metadata.deletionTimestamp !== undefined || metadata.annotations?.[annotations.lock] !== undefined;
  const isAvailable = (sandbox: Sandbox): boolean =>
    !isLeaving(sandbox) && sandbox.status?.phase === "Running" && isConditionTrue(sandbox.status.conditions, "Ready");
  const hasWord = (word: string) => (sandbox: Sandbox) => JSON.stringify(sandbox.spec).includes(`"${word}"`);

  /** It says that it is full and of one revision, and no more are there than that. */
  async function untilSettled(name: string, replicas: number): Promise<void> {
    await seen.until(`the set ${name} has its ${replicas} replicas`, () => {
      const set = seen.set(`${namespace}/${name}`);
      const { observedGeneration, availableReplicas, updatedAvailableReplicas } = set?.status ?? {};
      const isHeard = observedGeneration === set?.metadata.generation;
      const isFull = availableReplicas === replicas && updatedAvailableReplicas === replicas;
      // A status may be of before a claim, which is no new generation.
      return isHeard && isFull && pooled(name).length === replicas && pooled(name).every(isAvailable);
    });
    const podNames = seen.pods.map(({ metadata }) => metadata.name).sort();
    expect(podNames).toEqual(seen.sandboxes.map(({ metadata }) => metadata.name).sort());
    // Each is a program of its own that nobody has asked before.
    expect(await Promise.all(pooled(name).map((sandbox) => world.count(sandbox)))).toEqual(Array(replicas).fill(1));
  }

  type SetStep = [step: string, isReached: (set: string) => boolean];
  const scaleSteps: SetStep[] = [
    ["at once", () => true],
    ["with the first sandbox", (set) => pooled(set).length > 0],
    ["with the third sandbox", (set) => pooled(set).length > 2],
    ["with the first Pod", () => seen.pods.length > 0],
    ["when the first is available", (set) => pooled(set).some(isAvailable)],
  ];
  test.each(scaleSteps)("a set that fills, %s: it has its replicas, and no others", async (_, isReached) => {
    const name = `set-${++number}`;
    await world.cluster.cluster.sets.create(setRequest(name, 4, "first"));
    await seen.until("the step", () => isReached(name));
    await killController();
    await untilSettled(name, 4);
  });

  const rollSteps: SetStep[] = [
    ["at once", () => true],
    ["with the first of the new", (set) => pooled(set).some(hasWord("second"))],
    [
      "when the first of the new is available",
      (set) => pooled(set).some((one) => hasWord("second")(one) && isAvailable(one)),
    ],
    ["when the first of the old is going", (set) => pooled(set).some((one) => hasWord("first")(one) && isLeaving(one))],
  ];
  test.each(rollSteps)("a set that rolls, %s: it has the new ones, and never had too few", async (_, isReached) => {
    const name = `set-${++number}`;
    const { sets } = world.cluster.cluster;
    await sets.create(setRequest(name, 2, "first"));
    await untilSettled(name, 2);
    let fewest = 2;
    const end = seen.onChange(() => {
      fewest = Math.min(fewest, pooled(name).filter(isAvailable).length);
    });
    const { metadata } = await sets.mergePatch({ namespace, name }, { spec: setRequest(name, 2, "second").spec });
    await seen.until("the change", () => seen.set(`${namespace}/${name}`)?.metadata.generation === metadata.generation);
    await seen.until("the step", () => isReached(name));
    await killController();
    await untilSettled(name, 2);
    end();
    expect(pooled(name).every(hasWord("second"))).toBe(true);
    expect(fewest).toBe(2);
  });

  const made = (snapshot: string, purpose: string) =>
    seen.checkpoints.filter(({ metadata }) => {
      return metadata.labels?.[labels.snapshot] === snapshot && metadata.labels[labels.purpose] === purpose;
    });
  const builder = (): Sandbox | undefined =>
    seen.sandboxes.find(({ metadata }) => metadata.labels?.[labels.purpose] === "build");
  const stepRuns = (snapshot: string, index: number): boolean =>
    seen.snapshot(`${namespace}/${snapshot}`)?.status?.steps?.[index]?.state === "Running";
  const captured = (snapshot: string): boolean =>
    made(snapshot, "version").some(({ status }) => status?.phase === "Succeeded");

  type BuildStep = [step: string, reach: (snapshot: string) => Promise<unknown>];
  const buildSteps: BuildStep[] = [
    ["at once", () => Promise.resolve()],
    ["with its builder", () => seen.until("a builder", () => builder() !== undefined)],
    ["in its first step", (name) => seen.until("the first step runs", () => stepRuns(name, 0))],
    ["with the capture of a step", (name) => seen.until("a step is captured", () => made(name, "step").length > 0)],
    ["in its second step", (name) => seen.until("the second step runs", () => stepRuns(name, 1))],
    ["with the capture of the version", (name) => seen.until("it is captured", () => made(name, "version").length > 0)],
    ["in the middle of that capture", captureRuns],
    ["when that capture has ended", (name) => seen.until("it is captured", () => captured(name))],
  ];
  test.each(buildSteps)("a build, %s: the version is built once", async (_, reach) => {
    const name = `snapshot-${++number}`;
    const { snapshots, sandboxes } = world.cluster.cluster;
    await snapshots.create(snapshotRequest(name, "base"));
    await reach(name);
    await killController();
    await seen.until("the build has ended, and its builder is gone", () => {
      const { build } = seen.snapshot(`${namespace}/${name}`)?.status ?? {};
      return build?.endedAt !== undefined && builder() === undefined;
    });
    const { status } = seen.snapshot(`${namespace}/${name}`) ?? {};
    expect(status).toMatchObject({ version: 1, latestVersion: 1 });
    // A step of which nobody knows whether it had begun is run in another builder, on what was captured before it.
    expect(status?.build?.attempt).toBeLessThanOrEqual(2);
    expect(status?.build?.failure).toBeUndefined();
    expect(made(name, "version").map(({ metadata }) => metadata.name)).toEqual([status?.versions?.[0]?.checkpointName]);
    const clone = await world.cluster.untilReady(await sandboxes.create(cloneRequest(`clone-${number}`, name)));
    expect(await firstAnswer(clone.status?.sandboxIp ?? "", "/steps")).toBe("one\ntwo\n");
  });

  async function captureRuns(name: string): Promise<unknown> {
    await seen.until("it is captured", () => made(name, "version").length > 0);
    return world.engineRuns("checkpoint");
  }

  const taken = (): Sandbox[] =>
    seen.sandboxes.filter(({ metadata }) => metadata.labels?.[labels.sandboxClaimed] === "true");
  const isCompleted = (claim: string): boolean => seen.claim(`${namespace}/${claim}`)?.status?.phase === "Completed";
  const claimSteps: [step: string, isReached: (claims: string[]) => boolean][] = [
    ["at once", () => true],
    ["with the first sandbox", () => taken().length > 0],
    ["with the second sandbox", () => taken().length > 1],
    ["when one of them is completed", (claims) => claims.some(isCompleted)],
  ];
  test.each(claimSteps)("two claims of one set, %s: each has its own sandboxes", async (_, isReached) => {
    const set = `set-${++number}`;
    const names = [`claim-${number}-a`, `claim-${number}-b`];
    await world.cluster.cluster.sets.create(setRequest(set, 3, "first"));
    await untilSettled(set, 3);
    const stock = pooled(set).map(({ metadata }) => metadata.name);
    await Promise.all(names.map((name, index) => world.claims.create(claimRequest(name, set, index + 1))));
    await seen.until("the step", () => isReached(names));
    await killController();
    await seen.until("both are completed", () => names.every(isCompleted));
    // Sandboxes come by another watch than claims.
    await seen.until("what they have taken", () => taken().length >= stock.length);
    const claims = names.map((name) => seen.claim(`${namespace}/${name}`));
    expect(claims.map((claim) => claim?.status?.claimedReplicas)).toEqual([1, 2]);
    for (const claim of claims) {
      const own = taken().filter(({ metadata }) => metadata.annotations?.[annotations.owner] === claim?.metadata.uid);
      expect(own.map(({ metadata }) => metadata.name).sort()).toEqual(
        [...(claim?.status?.ramet?.sandboxes ?? [])].sort(),
      );
    }
    expect(
      taken()
        .map(({ metadata }) => metadata.name)
        .sort(),
    ).toEqual(stock.sort());
    await untilSettled(set, 3);
  });
});
