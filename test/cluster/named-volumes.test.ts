import { expect, it } from "vitest";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { sandboxWithVolume, sleeping } from "../setup/sandbox-with-volume.ts";
import { volumesWorld } from "./volumes-world.ts";

const world = volumesWorld();
const namespace = "default";
const two = {
  ...sandboxWithVolume(sleeping, { volumes: ["data", "cache"] }),
  persistentContents: ["memory", "filesystem", "volumes"],
  volumes: ["data"],
};
const empty = ["--volumes", "Empty"];

it("captures the volumes that the sandbox names, and says which are not in the checkpoint", async () => {
  await world.create("Sandbox", "a", two);
  await world.untilRunning("a");
  await world.shell("a", "echo kept > /data/note; echo kept > /cache/note");
  const { status } = await world.capture("a");
  expect(status?.ramet?.parts?.flatMap(({ volume }) => volume?.volume ?? [])).toEqual(["data"]);
  expect(status?.ramet?.volumes).toEqual([{ volume: "cache", claim: "cache-a" }]);
  await world.clone("b", "--from", status?.checkpointId ?? "", ...empty);
  expect(await world.shell("b", "cat /data/note; ls /cache")).toBe("kept");
});

it("captures the volumes that a SandboxTemplate names, and others if a checkpoint names them", async () => {
  await world.create("SandboxTemplate", "two", two);
  await world.clone("c", "--template", "two");
  const own = await world.capture("c");
  expect(own.status?.ramet?.parts?.flatMap(({ volume }) => volume?.volume ?? [])).toEqual(["data"]);
  const all = await world.capture("c", "--volumes", "*");
  expect(all.status?.ramet?.volumes).toBeUndefined();
});

it("builds versions with the volumes that the snapshot names, if it says what the others are", async () => {
  const snapshots = world.client.of(namedSnapshotKind);
  const condition = async (type: string) =>
    findCondition((await snapshots.get({ namespace, name: "s" })).status?.conditions, type);
  await world.create("NamedSnapshot", "s", {
    from: { template: { name: "two" } },
    recipe: [{ run: "echo built > /data/note; echo built > /cache/note" }],
    contents: ["memory", "filesystem", "volumes"],
    volumes: ["data"],
  });
  await expect
    .poll(() => condition("Building"), { timeout: 30_000 })
    .toMatchObject({ status: "False", reason: "VolumesNotCaptured" });
  expect((await condition("Building"))?.message).toContain("the data of the volumes cache,");
  const chosen = { metadata: { annotations: { [annotations.volumesOnRestore]: "Empty" } } };
  await snapshots.mergePatch({ namespace, name: "s" }, chosen);
  await expect.poll(() => condition("Ready"), { timeout: 120_000 }).toMatchObject({ status: "True" });
  await world.clone("d", "--from", "s", ...empty);
  expect(await world.shell("d", "cat /data/note; ls /cache")).toBe("built");
});
