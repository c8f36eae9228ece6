import { isDeepStrictEqual } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { controllerOf } from "../../src/kube/object.ts";
import { namespace } from "../bench/local-cluster.ts";
import { firstAnswer } from "../bench/workload.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { claimRequest, cloneRequest, setRequest, snapshotRequest, templateRequest } from "./controller-requests.ts";
import { WatchedObjects } from "./watched-objects.ts";

/** The controller creates several objects for one request; these tests kill it after each of them. */
describe("a controller that is killed", () => {
  let world: ClusterWorld;
  let seen: WatchedObjects;
  const closers: (() => Promise<void>)[] = [];
  let number = 0;

  beforeAll(async () => {
    world = await ClusterWorld.open(0);
    closers.unshift(() => world.close());
    seen = await WatchedObjects.open(world.cluster.cluster.client);
    closers.unshift(() => seen.close());
    await world.cluster.cluster.templates.create(templateRequest("base"));
  });
  afterAll(async () => {
    for (const close of closers) await close();
  });
  afterEach(async () => {
    await world.untilHealthy();
    await world.removeAll();
    await seen.until("no sandbox, no Pod and no checkpoint is left", () => {
      return seen.sandboxes.length === 0 && seen.pods.length === 0 && seen.checkpoints.length === 0;
    });
    await world.sweepStore();
    await expect.poll(() => world.orphans(), { interval: 100, timeout: 30_000 }).toEqual({});
  });

  const killController = (): Promise<void> => world.kill("controller", "");

  const pooled = (set: string): Sandbox[] => seen.sandboxes.filter((sandbox) => controllerOf(sandbox)?.name === set);
  const isLeaving = ({ metadata }: Sandbox): boolean =>
    metadata.deletionTimestamp !== undefined || metadata.annotations?.[annotations.lock] !== undefined;
  const isAvailable = (sandbox: Sandbox): boolean =>
    !isLeaving(sandbox) && sandbox.status?.phase === "Running" && isConditionTrue(sandbox.status.conditions, "Ready");
  const hasWord = (word: string) => (sandbox: Sandbox) => JSON.stringify(sandbox.spec).includes(`"${word}"`);

  /** Waits until the set's status shows all replicas available in one revision, and no other replicas exist. */
  async function untilSettled(name: string, replicas: number): Promise<void> {
    await seen.until(`the set ${name} has its ${replicas} replicas`, () => {
      const set = seen.set(`${namespace}/${name}`);
      const { observedGeneration, availableReplicas, updatedAvailableReplicas } = set?.status ?? {};
      const isObserved = observedGeneration === set?.metadata.generation;
      const isFull = availableReplicas === replicas && updatedAvailableReplicas === replicas;
      // The status may be older than a claim, because a claim does not change the generation.
      return isObserved && isFull && pooled(name).length === replicas && pooled(name).every(isAvailable);
    });
    const names = (objects: { metadata: { name: string } }[]) => objects.map(({ metadata }) => metadata.name).sort();
    // The end of a Pod and that of its sandbox come by two watches.
    await expect.poll(() => isDeepStrictEqual(names(seen.pods), names(seen.sandboxes))).toBe(true);
    // Each replica runs its own program, which has had no request before.
    expect(await Promise.all(pooled(name).map((sandbox) => world.count(sandbox)))).toEqual(Array(replicas).fill(1));
  }

  type SetStep = [step: string, isReached: (set: string) => boolean];
  const scaleSteps: SetStep[] = [
    ["after the request", () => true],
    ["at the first sandbox", (set) => pooled(set).length > 0],
    ["at the third sandbox", (set) => pooled(set).length > 2],
    ["at the first Pod", () => seen.pods.length > 0],
    ["when the first sandbox is available", (set) => pooled(set).some(isAvailable)],
  ];
  it.each(scaleSteps)("creates exactly the replicas of a new set (killed %s)", async (_, isReached) => {
    const name = `set-${++number}`;
    await world.cluster.cluster.sets.create(setRequest(name, 4, "first"));
    await seen.until("the step", () => isReached(name));
    await killController();
    await untilSettled(name, 4);
  });

  const rollSteps: SetStep[] = [
    ["after the request", () => true],
    ["at the first new sandbox", (set) => pooled(set).some(hasWord("second"))],
    [
      "when the first new sandbox is available",
      (set) => pooled(set).some((one) => hasWord("second")(one) && isAvailable(one)),
    ],
    [
      "when the first old sandbox is being deleted",
      (set) => pooled(set).some((one) => hasWord("first")(one) && isLeaving(one)),
    ],
  ];
  it.each(rollSteps)(
    "finishes a rolling update, and always keeps enough sandboxes available (killed %s)",
    async (_, isReached) => {
      const name = `set-${++number}`;
      const { sets } = world.cluster.cluster;
      await sets.create(setRequest(name, 2, "first"));
      await untilSettled(name, 2);
      let fewest = 2;
      const end = seen.onChange(() => {
        fewest = Math.min(fewest, pooled(name).filter(isAvailable).length);
      });
      const { metadata } = await sets.mergePatch({ namespace, name }, { spec: setRequest(name, 2, "second").spec });
      await seen.until(
        "the change",
        () => seen.set(`${namespace}/${name}`)?.metadata.generation === metadata.generation,
      );
      await seen.until("the step", () => isReached(name));
      await killController();
      await untilSettled(name, 2);
      end();
      expect(pooled(name).every(hasWord("second"))).toBe(true);
      expect(fewest).toBe(2);
    },
  );

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
    ["after the request", () => Promise.resolve()],
    ["at the builder", () => seen.until("a builder", () => builder() !== undefined)],
    ["in the first step", (name) => seen.until("the first step runs", () => stepRuns(name, 0))],
    ["at the capture of a step", (name) => seen.until("a step is captured", () => made(name, "step").length > 0)],
    ["in the second step", (name) => seen.until("the second step runs", () => stepRuns(name, 1))],
    ["at the capture of the version", (name) => seen.until("it is captured", () => made(name, "version").length > 0)],
    ["during the capture of the version", captureRuns],
    ["after the capture of the version", (name) => seen.until("it is captured", () => captured(name))],
  ];
  it.each(buildSteps)("builds a version once (killed %s)", async (_, reach) => {
    const name = `snapshot-${++number}`;
    const { snapshots, sandboxes } = world.cluster.cluster;
    await snapshots.create(snapshotRequest(name, "base"));
    await reach(name);
    await killController();
    await seen.until("the build has ended, and its builder is deleted", () => {
      const { build } = seen.snapshot(`${namespace}/${name}`)?.status ?? {};
      return build?.endedAt !== undefined && builder() === undefined;
    });
    const { status } = seen.snapshot(`${namespace}/${name}`) ?? {};
    expect(status).toMatchObject({ version: 1, latestVersion: 1 });
    // A step that may have started runs again in another builder, from the capture before it.
    expect(status?.build?.attempt).toBeLessThanOrEqual(2);
    expect(status?.build?.failure).toBeUndefined();
    expect(made(name, "version").map(({ metadata }) => metadata.name)).toEqual([status?.versions?.[0]?.checkpointName]);
    const clone = await world.cluster.untilReady(await sandboxes.create(cloneRequest(`clone-${number}`, name)));
    expect(await firstAnswer(clone.status?.sandboxIp ?? "", "/steps")).toBe("one\ntwo\n");
  });

  async function captureRuns(name: string): Promise<unknown> {
    await seen.until("the second step runs", () => stepRuns(name, 1));
    // A capture may be over when its Checkpoint is seen.
    return world.engineRuns("checkpoint");
  }

  const claimed = (): Sandbox[] =>
    seen.sandboxes.filter(({ metadata }) => metadata.labels?.[labels.sandboxClaimed] === "true");
  const isCompleted = (claim: string): boolean => seen.claim(`${namespace}/${claim}`)?.status?.phase === "Completed";
  const claimSteps: [step: string, isReached: (claims: string[]) => boolean][] = [
    ["after the request", () => true],
    ["at the first sandbox", () => claimed().length > 0],
    ["at the second sandbox", () => claimed().length > 1],
    ["when one claim is completed", (claims) => claims.some(isCompleted)],
  ];
  it.each(claimSteps)("assigns different sandboxes to two claims of one set (killed %s)", async (_, isReached) => {
    const set = `set-${++number}`;
    const names = [`claim-${number}-a`, `claim-${number}-b`];
    await world.cluster.cluster.sets.create(setRequest(set, 3, "first"));
    await untilSettled(set, 3);
    const stock = pooled(set).map(({ metadata }) => metadata.name);
    await Promise.all(names.map((name, index) => world.claims.create(claimRequest(name, set, index + 1))));
    await seen.until("the step", () => isReached(names));
    await killController();
    await seen.until("both are completed", () => names.every(isCompleted));
    // Sandboxes and claims come from different watches.
    await seen.until("all claimed sandboxes", () => claimed().length >= stock.length);
    const claims = names.map((name) => seen.claim(`${namespace}/${name}`));
    expect(claims.map((claim) => claim?.status?.claimedReplicas)).toEqual([1, 2]);
    for (const claim of claims) {
      const own = claimed().filter(({ metadata }) => metadata.annotations?.[annotations.owner] === claim?.metadata.uid);
      expect(own.map(({ metadata }) => metadata.name).sort()).toEqual(
        [...(claim?.status?.ramet?.sandboxes ?? [])].sort(),
      );
    }
    expect(
      claimed()
        .map(({ metadata }) => metadata.name)
        .sort(),
    ).toEqual(stock.sort());
    await untilSettled(set, 3);
  });
});
