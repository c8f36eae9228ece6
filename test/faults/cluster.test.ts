import { rename } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { ClusterWorld, type Victim } from "./cluster-world.ts";
import { Instants } from "./instants.ts";

/** Every part except etcd: a single-machine cluster has only one instance, so a separate test kills it. */
const victims: Victim[] = ["controller", "node", "api-server", "cell"];
const randomRounds = Number(process.env["RAMET_FAULT_ROUNDS"] ?? 2);

describe("a cluster with a killed part", () => {
  const instants = new Instants();
  let world: ClusterWorld;
  let close: (() => Promise<void>) | undefined;
  let number = 0;

  beforeAll(async () => {
    world = await ClusterWorld.open(128);
    close = () => world.close();
  });
  afterAll(() => close?.());
  afterEach(async () => {
    await world.untilHealthy();
    await world.removeAll();
    await world.sweepStore();
    await expect.poll(() => world.orphans(), { interval: 100, timeout: 30_000 }).toEqual({});
  });

  /** When to kill: at a random instant after the request, or when a step has started. */
  type Moment = { name: string; reached: () => Promise<unknown> };
  const atRandom = (limitMilliseconds: number, what: string): Moment[] =>
    Array.from({ length: randomRounds }, (_, round) => {
      const instant = instants.below(limitMilliseconds);
      const name = `${instant} ms after the request (random ${what} ${round + 1})`;
      return { name, reached: () => sleep(instant) };
    });
  const whenRuns = (command: "checkpoint" | "restore"): Moment => ({
    name: `when runsc ${command} runs`,
    reached: () => world.engineRuns(command),
  });

  const checkpointKills = victims.flatMap((victim) =>
    [whenRuns("checkpoint"), ...atRandom(400, victim)].map((moment) => ({ victim, moment, at: moment.name })),
  );
  it.each(checkpointKills)(
    "recovers from a kill of the $victim during a checkpoint, $at",
    async ({ victim, moment }) => {
      const id = ++number;
      const { cluster } = world;
      const source = await world.source(`source-${id}`);
      const requested = await cluster.requestCheckpoint(`captured-${id}`, source.metadata.name);
      await moment.reached();
      await world.kill(victim, source.metadata.name);
      const done = await cluster.untilFinished(requested);
      await world.untilHealthy();
      const { phase, message } = done.status ?? {};
      console.log(`faults: ${victim} killed in a checkpoint ${moment.name}: ${phase ?? ""} ${message ?? ""}`);
      if (phase === "Succeeded") expect(await world.countInClone(`proof-${id}`, done)).toBe(2);
      if (victim === "cell") {
        // A controller that only waited for the unreachable cell to time out would report Unavailable.
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
    },
  );

  const cloneKills = victims.flatMap((victim) =>
    [whenRuns("restore"), ...atRandom(800, victim)].map((moment) => ({ victim, moment, at: moment.name })),
  );
  it.each(cloneKills)("recovers from a kill of the $victim during a clone, $at", async ({ victim, moment }) => {
    const id = ++number;
    const { cluster } = world;
    const source = await world.source(`source-${id}`);
    const checkpoint = await cluster.createCheckpoint(`original-${id}`, source.metadata.name);
    const requested = await world.requestClone(`clone-${id}`, checkpoint);
    await moment.reached();
    // A clone has no cell to kill before its Pod exists.
    const killed = await world.kill(victim, requested.metadata.name).then(
      () => true,
      () => false,
    );
    const outcome = await endOf(requested);
    await world.untilHealthy();
    console.log(
      `faults: ${victim} killed (${killed}) in a clone ${moment.name}: ${outcome.status?.phase ?? ""} ${outcome.status?.message ?? ""}`,
    );
    if (victim === "cell" && killed) {
      // The clone may have been Running before.
      const lost = await cluster.until(
        cluster.cluster.sandboxes,
        requested,
        (seen) => seen?.status?.phase === "Failed",
      );
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

  it("keeps all objects, and finishes the running checkpoint, after a kill of etcd", async () => {
    const source = await world.source("etcd");
    const before = await world.cluster.createCheckpoint("etcd-1", "etcd");
    const requested = await world.cluster.requestCheckpoint("etcd-2", "etcd");
    await world.kill("etcd", "etcd");
    await world.untilHealthy();
    const done = await world.cluster.untilFinished(requested);
    expect(done.status?.phase).toBe("Succeeded");
    expect(await world.countInClone("etcd-proof", before)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });

  it("captures the checkpoint although the API server does not respond for longer than a request's timeout", async () => {
    const { cluster } = world;
    const source = await world.source("silent");
    const requested = await cluster.requestCheckpoint("silent", "silent");
    const silence = world.silence("api-server");
    await sleep(40_000);
    silence.end();
    const done = await cluster.untilFinished(requested);
    expect(done.status).toMatchObject({ phase: "Succeeded" });
    expect(await world.countInClone("silent-proof", done)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });

  it("fails a checkpoint with the reason while the store's directory is missing, and captures one once it is back", async () => {
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
    const captured = await world.cluster.createCheckpoint("store-back", "storeless");
    expect(await world.countInClone("store-back", captured)).toBe(2);
    expect(await world.count(source)).toBe(2);
  });
});
