import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { type Preparation, preparationAnnotation } from "../../src/kube/volumes/preparation.ts";
import { volumeResources } from "../../src/kube/volumes/volumes.ts";
import { driverName } from "../../src/local/csi/unary.ts";
import { sandboxWithVolume } from "../setup/sandbox-with-volume.ts";
import { volumesWorld } from "./volumes-world.ts";

const world = volumesWorld();
const namespace = "default";
const counting = `
import time
n = 0
while True:
    n += 1
    with open('/data/count', 'w') as f: f.write(str(n))
    time.sleep(0.01)
`;
const whole = { persistentContents: ["memory", "filesystem", "volumes"] };

async function isCounting(): Promise<boolean> {
  const before = await world.readVolume("data-a", "count");
  await sleep(300);
  return (await world.readVolume("data-a", "count")) !== before;
}

const annotationOf = (preparation: Preparation) => ({ [preparationAnnotation]: JSON.stringify(preparation) });

const phase = async (name: string) => (await world.checkpoints.get({ namespace, name })).status;

it("resumes a sandbox by itself if the driver hangs and the controller is killed, and then completes the checkpoint", async () => {
  await world.create("Sandbox", "a", sandboxWithVolume(counting));
  await world.untilRunning("a");
  // The driver and the snapshot-controller run from the first capture on.
  expect((await world.taken("first", { sandboxName: "a", ...whole, requireAtomic: true })).status?.phase).toBe(
    "Succeeded",
  );
  const driver = world.pid("csi-driver");
  process.kill(driver, "SIGSTOP");
  try {
    await world.create("Checkpoint", "held", { sandboxName: "a", ...whole, consistency: "atomic" });
    await expect.poll(isCounting, { timeout: 20_000 }).toBe(false);
    process.kill(world.pid("controller"), "SIGKILL");
    await expect.poll(isCounting, { timeout: 60_000 }).toBe(true);
  } finally {
    process.kill(driver, "SIGCONT");
  }
  await expect.poll(async () => (await phase("held"))?.completionTime, { timeout: 120_000 }).toBeDefined();
  const { phase: outcome, ramet } = (await phase("held")) ?? {};
  expect(outcome).toBe("Succeeded");
  // The next controller may find the sandbox in the pause of the first one, which ends too early for it.
  if (ramet?.consistency !== "atomic")
    expect(ramet?.consistencyNote).toContain("was resumed before its volumes were captured");
  expect(await isCounting()).toBe(true);
});

it("does not hold a sandbox while the programs of snapshots are prepared, and reports that", async () => {
  const prepare = (preparation: Preparation) =>
    world.client
      .resource(volumeResources.drivers)
      .mergePatch({ name: driverName }, { metadata: { annotations: annotationOf(preparation) } });
  const since = new Date().toISOString();
  await prepare({ since });
  await world.create("Checkpoint", "prepared", { sandboxName: "a", ...whole, requireAtomic: true });
  await expect
    .poll(() => phase("prepared"), { timeout: 20_000 })
    .toMatchObject({
      phase: "Pending",
      conditions: [{ type: "Ready", reason: "Preparing" }],
    });
  expect((await world.ramet("explain", "checkpoint/prepared")).stdout).toContain("ramet local status");
  await sleep(5_000);
  expect(await isCounting()).toBe(true);
  expect(await phase("prepared")).toMatchObject({ phase: "Pending" });
  await prepare({ since, until: new Date().toISOString() });
  await expect.poll(async () => (await phase("prepared"))?.completionTime, { timeout: 120_000 }).toBeDefined();
  expect(await phase("prepared")).toMatchObject({ phase: "Succeeded", ramet: { consistency: "atomic" } });
});

it("fails a checkpoint that must be atomic if the driver takes too long, and leaves the sandbox running", async () => {
  const driver = world.pid("csi-driver");
  process.kill(driver, "SIGSTOP");
  try {
    await world.create("Checkpoint", "late", { sandboxName: "a", ...whole, requireAtomic: true });
    await expect.poll(async () => (await phase("late"))?.completionTime, { timeout: 90_000 }).toBeDefined();
    const status = await phase("late");
    expect(status?.phase).toBe("Failed");
    expect(status?.message).toContain("[NotAtomic]");
    expect(await isCounting()).toBe(true);
  } finally {
    process.kill(driver, "SIGCONT");
  }
  await world.ramet("checkpoint", "rm", "late", "held", "first", "prepared");
  await expect
    .poll(async () => (await snapshotsIn(world.client).list({ namespace })).items, { timeout: 60_000 })
    .toEqual([]);
});
