import { describe, expect, it } from "vitest";
import { volumeParts } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { claimsIn } from "../../src/kube/volumes/volumes.ts";
import { sandboxWithVolume } from "../setup/sandbox-with-volume.ts";
import { volumesWorld } from "./volumes-world.ts";

const world = volumesWorld();
const namespace = "default";
const sleeping = sandboxWithVolume("import time; time.sleep(1000)");

it("forks a sandbox with its volume, and leaves no VolumeSnapshot", async () => {
  await world.create("Sandbox", "a", sleeping);
  await world.untilRunning("a");
  await world.shell("a", "echo one > /data/note; echo one > /note");
  const { stdout } = await world.ramet("fork", "a", "--count", "2", "--name-prefix", "f");
  expect(stdout.trim().split("\n")).toEqual(["f-1", "f-2"]);
  await world.shell("a", "echo two > /data/note");
  for (const name of ["f-1", "f-2"]) {
    expect(await world.shell(name, "cat /data/note /note")).toBe("one\none");
    await world.shell(name, `echo ${name} > /data/note`);
  }
  expect(await world.shell("f-1", "cat /data/note")).toBe("f-1");
  expect(await world.shell("a", "cat /data/note")).toBe("two");
  await expect
    .poll(async () => (await snapshotsIn(world.client).list({ namespace })).items, { timeout: 60_000 })
    .toEqual([]);
});

it("gives a clone that was created paused its volume when it is resumed, also after its checkpoint was deleted", async () => {
  await world.ramet("fork", "a", "--name-prefix", "p", "--paused");
  await world.shell("a", "echo three > /data/note");
  // A checkpoint of it has the volume that it does not have yet.
  const { status, metadata } = await world.capture("p-1", "--volumes", "*");
  expect(volumeParts(status?.ramet?.parts)).toHaveLength(1);
  await world.clone("p-2", "--from", status?.checkpointId ?? "");
  expect(await world.shell("p-2", "cat /data/note")).toBe("two");
  await world.ramet("checkpoint", "rm", metadata.name);
  await world.ramet("sandbox", "rm", "p-2");
  await world.ramet("sandbox", "resume", "p-1");
  expect(await world.shell("p-1", "cat /data/note")).toBe("two");
  await world.shell("a", "echo two > /data/note");
  await world.ramet("sandbox", "rm", "p-1");
  await expect
    .poll(async () => (await snapshotsIn(world.client).list({ namespace })).items, { timeout: 60_000 })
    .toEqual([]);
});

it("captures the volume of a paused sandbox without resuming it", async () => {
  await world.ramet("sandbox", "pause", "a");
  const { status } = await world.capture("a", "--volumes", "*");
  expect(status?.ramet?.parts?.map(({ contents }) => contents)).toEqual([["volumes"], ["memory", "filesystem"]]);
  expect((await world.sandboxes.get({ namespace, name: "a" })).status?.phase).toBe("Paused");
  await world.clone("b", "--from", status?.checkpointId ?? "");
  expect(await world.shell("b", "cat /data/note /note")).toBe("two\none");
  await world.ramet("sandbox", "resume", "a");
  expect(await world.shell("a", "cat /data/note")).toBe("two");
  await world.ramet("checkpoint", "rm", ...(await world.checkpoints.list({ namespace })).items.map(nameOf));
  await expect.poll(async () => (await snapshotsIn(world.client).list({ namespace })).items).toEqual([]);
});

describe("a rollback to a checkpoint with a volume", () => {
  const claimsOfA = async () =>
    (await claimsIn(world.client).list({ namespace })).items
      .filter(({ metadata }) => metadata.ownerReferences?.some(({ name }) => name === "a"))
      .map(nameOf);

  it("gives the sandbox a new claim with the captured data, and deletes the one before", async () => {
    const { metadata } = await world.capture("a", "--contents", "memory,filesystem,volumes", "--name", "back");
    for (const text of ["four", "five"]) {
      const [before] = await claimsOfA();
      await world.shell("a", `echo ${text} > /data/note; echo ${text} > /note`);
      await world.ramet("rollback", "a", metadata.name);
      expect(await world.shell("a", "cat /data/note /note")).toBe("two\none");
      await expect.poll(claimsOfA).toHaveLength(1);
      expect(await claimsOfA()).not.toEqual([before]);
    }
  });

  it("keeps the new claim over a pause", async () => {
    await world.shell("a", "echo six > /data/note");
    await world.ramet("sandbox", "pause", "a");
    await world.ramet("sandbox", "resume", "a");
    expect(await world.shell("a", "cat /data/note")).toBe("six");
  });

  it("gives a paused sandbox the claim when it is resumed, also if the checkpoint was deleted meanwhile", async () => {
    const { status } = await world.capture("a", "--contents", "memory,filesystem,volumes", "--name", "target");
    await world.capture("a", "--contents", "filesystem", "--name", "files");
    const [before] = await claimsOfA();
    await world.shell("a", "echo seven > /data/note");
    await world.ramet("sandbox", "pause", "a");
    await world.ramet("rollback", "a", "target");
    // A refused one leaves the first in force.
    expect((await world.cli.ramet(["rollback", "a", "files"])).stderr).toContain("[VolumesNotCaptured]");
    await world.ramet("checkpoint", "rm", "target", "files");
    await world.ramet("sandbox", "resume", "a");
    expect(await world.shell("a", "cat /data/note")).toBe("six");
    await expect.poll(claimsOfA).toHaveLength(1);
    expect(await claimsOfA()).not.toEqual([before]);
    const sandbox = await world.sandboxes.get({ namespace, name: "a" });
    expect(sandbox.status?.ramet).toMatchObject({ restoredFrom: status?.checkpointId });
    expect(sandbox.status?.ramet?.rollback).not.toHaveProperty("onResume");
    // The next pause and resume keep it.
    await world.shell("a", "echo six > /note");
    await world.ramet("sandbox", "pause", "a");
    await world.ramet("sandbox", "resume", "a");
    expect(await world.shell("a", "cat /data/note /note")).toBe("six\nsix");
  });

  it("leaves the volumes alone if another rollback follows before the resume, without volumes", async () => {
    await world.capture("a", "--contents", "memory,filesystem,volumes", "--name", "target");
    await world.capture("a", "--contents", "memory,filesystem", "--name", "plain");
    await world.shell("a", "echo eight > /data/note");
    await world.ramet("sandbox", "pause", "a");
    await world.ramet("rollback", "a", "target");
    await world.ramet("rollback", "a", "plain", "--volumes", "Shared");
    await world.ramet("sandbox", "resume", "a");
    expect(await world.shell("a", "cat /data/note")).toBe("eight");
    await world.shell("a", "echo six > /data/note");
    await world.ramet("checkpoint", "rm", "target", "plain");
  });

  it("changes nothing if the data of the volume is gone", async () => {
    const { parts } = (await world.checkpoints.get({ namespace, name: "back" })).status?.ramet ?? {};
    await snapshotsIn(world.client).delete({ namespace, name: parts?.[0]?.volume?.snapshot ?? "" });
    const refused = await world.cli.ramet(["rollback", "a", "back"]);
    expect(refused.stderr).toContain("[CheckpointLost]");
    expect(await world.shell("a", "cat /data/note")).toBe("six");
    await world.ramet("checkpoint", "rm", "back");
  });
});

it("makes a clone of a clone", async () => {
  const { status } = await world.capture("b", "--contents", "filesystem,volumes");
  await world.clone("c", "--from", status?.checkpointId ?? "");
  expect(await world.shell("c", "cat /data/note /note")).toBe("two\none");
});

it("gives a claim a new Pod, because a running one cannot get the volume", async () => {
  await world.create("SandboxSet", "pool", { replicas: 1, ...sleeping });
  await expect
    .poll(async () => (await world.ramet("set", "get", "pool", "-o", "json")).stdout, { timeout: 60_000 })
    .toContain('"availableReplicas": 1');
  const { status } = await world.capture("b", "--contents", "memory,filesystem,volumes");
  const restoreFrom = status?.checkpointId ?? "";
  const claimed = (await world.ramet("claim", "pool", "--from", restoreFrom)).stdout.trim();
  const sandbox = await world.untilRunning(claimed);
  expect(sandbox.status?.ramet?.restoredFrom).toBe(restoreFrom);
  expect(await world.shell(claimed, "cat /data/note")).toBe("two");
});

it("builds a named snapshot whose versions have the volume that its steps have filled", async () => {
  await world.create("SandboxTemplate", "work", sleeping);
  await world.create("NamedSnapshot", "filled", {
    from: { template: { name: "work" } },
    recipe: [{ run: "echo step one > /data/one" }, { run: "cat /data/one > /data/two" }],
    contents: ["memory", "filesystem", "volumes"],
  });
  const snapshots = world.client.of(namedSnapshotKind);
  await expect
    .poll(async () => findCondition((await snapshots.get({ namespace, name: "filled" })).status?.conditions, "Ready"), {
      timeout: 120_000,
    })
    .toMatchObject({ status: "True" });
  await world.clone("filled-one", "--from", "filled");
  expect(await world.shell("filled-one", "cat /data/two")).toBe("step one");
});

function nameOf({ metadata }: { metadata: { name: string } }): string {
  return metadata.name;
}
