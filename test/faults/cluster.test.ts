import { rename } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { ClusterWorld, type Victim } from "./cluster-world.ts";
import { Instants } from "./instants.ts";

/** Every part but etcd, which a single-machine cluster has no second of; it is killed in a test of its own. */
const victims: Victim[] = ["controller", "node", "api-server", "cell"];
const randomRounds = Number(process.env["RAMET_FAULT_ROUNDS"] ?? 2);

describe("a part of the cluster, killed in the middle", () => {
  const instants = new Instants();
  let world: ClusterWorld;
  let number = 0;

  beforeAll(async () => {
    world = await ClusterWorld.open(128);
  });
  afterAll(() => world.close());
  afterEach(async () => {
    await world.whole();
    await world.removeAll();
    await world.sweepStore();
    await expect.poll(() => world.more(), { interval: 100, timeout: 30_000 }).toEqual({});
  });

  /** When to kill: at a random instant after the wish, or when a step has begun. */
  type Moment = { name: string; come: () => Promise<unknown> };
  const atRandom = (limitMilliseconds: number, what: string): Moment[] =>
    Array.from({ length: randomRounds }, (_, round) => {
      const instant = instants.below(limitMilliseconds);
      const name = `${instant} ms after the wish (random ${what} ${round + 1})`;
      return { name, come: () => sleep(instant) };
    });
  const whenRuns = (command: "checkpoint" | "restore"): Moment => ({
    name: `when runsc ${command} runs`,
    come: () => world.engineRuns(command),
  });

  const cuts = victims.flatMap((victim) =>
    [whenRuns("checkpoint"), ...atRandom(400, victim)].map((moment) => ({ victim, moment, at: moment.name })),
  );
  test.each(cuts)("the $victim in a checkpoint, $at", async ({ victim, moment }) => {
    const id = ++number;
    const { cluster } = world;
    const source = await world.source(`source-${id}`);
    const wish = await cluster.requestCheckpoint(`cut-${id}`, source.metadata.name);
    await moment.come();
    await world.kill(victim, source.metadata.name);
    const done = await cluster.untilFinished(wish);
    await world.whole();
    const { phase, message } = done.status ?? {};
    console.log(`faults: ${victim} killed in a checkpoint ${moment.name}: ${phase ?? ""} ${message ?? ""}`);
    if (phase === "Succeeded") expect(await world.countInClone(`proof-${id}`, done)).toBe(2);
    if (victim === "cell") {
      // Had it waited until the cell could not be reached for long enough, it would say Unavailable.
      if (phase === "Failed") {
        expect(message).toMatch(new RegExp(`(Pod|sandbox) ${source.metadata.name} .*\\[Sandbox(Lost|NotReady)\\]`));
      }
      await cluster.until(cluster.cluster.sandboxes, source, (seen) => seen?.status?.phase === "Failed");
      return;
    }
    expect(phase).toBe("Succeeded");
    expect(await world.count(source)).toBe(2);
    const again = await cluster.createCheckpoint(`again-${id}`, source.metadata.name);
    expect(await world.countInClone(`again-${id}`, again)).toBe(3);
    expect(await world.count(source)).toBe(3);
  });

  const births = victims.flatMap((victim) =>
    [whenRuns("restore"), ...atRandom(800, victim)].map((moment) => ({ victim, moment, at: moment.name })),
  );
  test.each(births)("the $victim in a clone, $at", async ({ victim, moment }) => {
    const id = ++number;
    const { cluster } = world;
    const source = await world.source(`source-${id}`);
    const checkpoint = await cluster.createCheckpoint(`taken-${id}`, source.metadata.name);
    const wish = await world.requestClone(`clone-${id}`, checkpoint);
    await moment.come();
    // Before its Pod is there, a clone has no cell to kill.
    const killed = await world.kill(victim, wish.metadata.name).then(
      () => true,
      () => false,
    );
    const outcome = await endOf(wish);
    await world.whole();
    console.log(
      `faults: ${victim} killed (${killed}) in a clone ${moment.name}: ${outcome.status?.phase ?? ""} ${outcome.status?.message ?? ""}`,
    );
    if (victim === "cell" && killed) {
      // It may have answered first.
      const lost = await cluster.until(cluster.cluster.sandboxes, wish, (seen) => seen?.status?.phase === "Failed");
      expect(lost.status?.message).toMatch(/lost|cell/);
    } else {
      expect(outcome.status?.phase).toBe("Running");
      expect(await world.count(outcome)).toBe(2);
    }
    expect(await world.countInClone(`again-${id}`, checkpoint)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });

  async function endOf(clone: Sandbox): Promise<Sandbox> {
    const { cluster } = world;
    const isEnd = (seen: Sandbox | undefined): boolean => ["Running", "Failed"].includes(seen?.status?.phase ?? "");
    return cluster.until(cluster.cluster.sandboxes, clone, isEnd);
  }

  test("etcd, with a checkpoint under way: what had been written is still there, and all goes on", async () => {
    const source = await world.source("etcd");
    const before = await world.cluster.createCheckpoint("etcd-1", "etcd");
    const wish = await world.cluster.requestCheckpoint("etcd-2", "etcd");
    await world.kill("etcd", "etcd");
    await world.whole();
    const done = await world.cluster.untilFinished(wish);
    expect(done.status?.phase).toBe("Succeeded");
    expect(await world.countInClone("etcd-proof", before)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });

  test("the API server, silent for longer than a request waits for it: the checkpoint is taken all the same", async () => {
    const { cluster } = world;
    const source = await world.source("silent");
    const wish = await cluster.requestCheckpoint("silent", "silent");
    const silence = world.silence("api-server");
    await sleep(40_000);
    silence.end();
    const done = await cluster.untilFinished(wish);
    expect(done.status).toMatchObject({ phase: "Succeeded" });
    expect(await world.countInClone("silent-proof", done)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });

  test("the store's folder, gone for a while: a checkpoint fails and says so, and can be taken when it is back", async () => {
    const { store } = world.cluster.directory;
    const source = await world.source("storeless");
    await rename(store, `${store}.away`);
    try {
      const done = await world.cluster.untilFinished(await world.cluster.requestCheckpoint("no-store", "storeless"));
      expect(done.status).toMatchObject({
        phase: "Failed",
        message: expect.stringContaining("does not exist") as string,
      });
    } finally {
      await rename(`${store}.away`, store);
    }
    const taken = await world.cluster.createCheckpoint("store-back", "storeless");
    expect(await world.countInClone("store-back", taken)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });
});
