import { describe, expect, it } from "vitest";
import { findCondition } from "../../src/kube/conditions.ts";
import { snapshotContentsIn, snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { claimsIn } from "../../src/kube/volumes/volumes.ts";
import { sandboxWithVolume } from "../setup/sandbox-with-volume.ts";
import { volumesWorld } from "./volumes-world.ts";

const world = volumesWorld();
const namespace = "default";

/** Counts in memory, in a file of the volume and in one in /tmp, which it keeps open: a reader finds no empty file. */
const counting = `
import os, time
n = 0
with open('/data/count', 'w') as data, open('/tmp/count', 'w') as own:
    while True:
        n += 1
        for f in data, own: f.seek(0); f.write(str(n)); f.flush()
        time.sleep(0.02)
`;

const count = async (sandbox: string, file: string): Promise<number> =>
  Number(await world.cli.exec(sandbox, "cat", file));

it("captures memory, files and the volume of a sandbox, and clones all of them", async () => {
  await world.create("Sandbox", "a", sandboxWithVolume(counting));
  await world.untilRunning("a");
  // A sandbox is ready before its program has begun to count.
  await expect.poll(() => count("a", "/data/count")).toBeGreaterThan(0);
  const before = await count("a", "/data/count");
  const checkpoint = await world.capture("a", "--contents", "memory,filesystem,volumes");
  const after = await count("a", "/data/count");
  expect(after).toBeGreaterThan(before);
  const { parts = [], volumes } = checkpoint.status?.ramet ?? {};
  expect(parts.map(({ backend, contents }) => [backend, contents])).toEqual([
    ["csi", ["volumes"]],
    ["cell", ["memory", "filesystem"]],
  ]);
  expect(parts[0]?.volume).toMatchObject({ volume: "data", claim: "data-a", driver: "local.csi.ramet.dev" });
  expect(volumes).toBeUndefined();
  expect(findCondition(checkpoint.status?.conditions, "VolumesCaptured")?.status).toBe("True");

  const id = checkpoint.status?.checkpointId ?? "";
  await world.clone("b", "--from", id);
  const claim = await claimsIn(world.client).get({ namespace, name: "data-b" });
  expect(claim.spec.dataSource).toMatchObject({ kind: "VolumeSnapshot", name: parts[0]?.volume?.snapshot });
  // The clone's program has the file open and continues to count in it, from the captured value.
  const first = await count("b", "/data/count");
  expect(first).toBeGreaterThanOrEqual(before);
  await expect.poll(() => count("b", "/data/count")).toBeGreaterThan(first);
  // In one command, because the program counts on between two.
  const counts = (await world.shell("b", "cat /tmp/count; echo; cat /data/count")).split("\n").map(Number);
  expect(Math.abs((counts[0] ?? NaN) - (counts[1] ?? NaN))).toBeLessThan(200);
});

it("clones the volume alone into a sandbox that starts from its image", async () => {
  await world.create("Sandbox", "c", sandboxWithVolume(counting));
  await world.untilRunning("c");
  await world.shell("c", "echo kept > /data/note");
  const { status } = await world.capture("c", "--contents", "volumes");
  expect(status?.ramet?.parts?.map(({ contents }) => contents)).toEqual([["volumes"]]);
  await world.shell("c", "echo changed > /data/note");
  await world.clone("d", "--from", status?.checkpointId ?? "");
  expect(await world.cli.exec("d", "cat", "/data/note")).toBe("kept");
  expect(await world.cli.exec("c", "cat", "/data/note")).toBe("changed");
});

describe("a capture between two commands", () => {
  const note = (text: string) => ["sh", "-c", `echo ${text} >> /data/log`];
  const spec = (before: object) => ({
    sandboxName: "c",
    persistentContents: ["volumes"],
    quiesce: { before, after: { command: note("busy") } },
  });

  it("has what the first command left, and the sandbox continues after the second one", async () => {
    const { status } = await world.taken("quiet", spec({ command: note("quiet") }));
    expect(status).toMatchObject({ phase: "Succeeded", ramet: { consistency: "quiesced" } });
    await world.clone("q", "--from", status?.checkpointId ?? "");
    expect(await world.shell("q", "cat /data/log")).toBe("quiet");
    expect(await world.shell("c", "cat /data/log")).toBe("quiet\nbusy");
  });

  it("fails with the first command, after the second one has run, and captures nothing", async () => {
    const before = (await snapshotsIn(world.client).list({ namespace })).items.length;
    const { status } = await world.taken("unquiet", spec({ command: ["sh", "-c", "echo not now; exit 3"] }));
    expect(status?.phase).toBe("Failed");
    expect(status?.message).toContain("The command in quiesce.before failed: exit code 3: not now");
    expect(status?.message).toContain("[QuiesceFailed]");
    expect(await world.shell("c", "tail -1 /data/log; wc -l < /data/log")).toBe("busy\n3");
    expect((await snapshotsIn(world.client).list({ namespace })).items).toHaveLength(before);
  });

  it("is taken in spite of a failure if that is requested, and says so", async () => {
    const failing = { command: ["sleep", "100"], timeoutSeconds: 1, onFailure: "Continue" };
    const { status } = await world.taken("anyway", spec(failing));
    expect(status).toMatchObject({ phase: "Succeeded", ramet: { consistency: "sync" } });
    expect(status?.ramet?.consistencyNote).toContain("The command in quiesce.before failed");
  });
});

it("deletes the data of a volume with its checkpoint, and leaves the clones alone", async () => {
  const { status, metadata } = await world.capture("c", "--contents", "volumes", "--name", "short");
  const { snapshot = "", claim } = status?.ramet?.parts?.[0]?.volume ?? {};
  expect(claim).toBe("data-c");
  const bound = (await snapshotsIn(world.client).get({ namespace, name: snapshot })).status
    ?.boundVolumeSnapshotContentName;
  const contents = snapshotContentsIn(world.client);
  expect((await contents.get({ name: bound ?? "" })).spec.deletionPolicy).toBe("Retain");
  await world.clone("e", "--from", status?.checkpointId ?? "");
  await world.ramet("checkpoint", "rm", metadata.name);
  await expect.poll(() => world.checkpoints.find({ namespace, name: "short" }), { timeout: 60_000 }).toBeUndefined();
  expect(await snapshotsIn(world.client).find({ namespace, name: snapshot })).toBeUndefined();
  await expect.poll(() => contents.find({ name: bound ?? "" })).toBeUndefined();
  expect(await world.cli.exec("e", "cat", "/data/note")).toBe("changed");
});

it("refuses a volume that the sandbox does not have, and leaves no VolumeSnapshot", async () => {
  const before = (await snapshotsIn(world.client).list({ namespace })).items.length;
  const refused = await world.cli.ramet(["checkpoint", "create", "c", "--volumes", "other"]);
  expect(refused.exitCode).not.toBe(0);
  expect(refused.stderr).toContain("has no volume other that is a PersistentVolumeClaim; it has data");
  expect((await snapshotsIn(world.client).list({ namespace })).items).toHaveLength(before);
});
