import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clusterComplaints } from "./volume-cluster-complaints.ts";
import { complaints } from "./volume-complaints.ts";
import { deletionComplaints } from "./volume-deletion-complaints.ts";
import { failedToTake, failing, fromSnapshot, ofProvisioner, restoring } from "./volume-plays.ts";
import { VolumeScene } from "./volume-scene.ts";
import { VolumeWorld } from "./volume-world.ts";

const page = await readFile(new URL("../../docs/tasks/snapshot-not-ready.md", import.meta.url), "utf8");
let world: VolumeWorld;
beforeAll(async () => {
  world = await VolumeWorld.start();
});
afterAll(() => world.stop());

it.each([...complaints, ...deletionComplaints])("explains: $complaint", async ({ play, later = 0, found }) => {
  const namespace = await world.namespace();
  const object = await play(new VolumeScene(world, namespace));
  const args = ["explain", object.toString(), "-n", namespace, "-o", "json"];
  const { exitCode, stdout, stderr } = await world.ramet(args, { later });
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toMatchObject(found);
  expect(JSON.parse(stdout)).toMatchObject({ unknown: [] });
  expect(exitCode).toBe(0);
  expect(page).toContain(`\`${(JSON.parse(stdout) as { reason: string }).reason}\``);
});

it.each(clusterComplaints)("checks the cluster: $complaint", async ({ play, later = 0, check, found }) => {
  const namespace = await world.namespace();
  const flags = await play(new VolumeScene(world, namespace));
  const args = ["doctor", "-n", namespace, "--timeout", "20s", "-o", "json"].concat(flags);
  const { stdout } = await world.ramet(args, { later });
  const { findings } = JSON.parse(stdout) as { findings: { check: string }[] };
  expect(findings.find((one) => one.check === check)).toMatchObject({ level: "warning", ...found });
});

describe("--remove-orphaned-finalizer", () => {
  const remove = (scene: VolumeScene, ...more: string[]) =>
    scene.world.ramet(["explain", "vs/a", "--remove-orphaned-finalizer", "-n", scene.namespace, ...more]);

  async function deletedSnapshot(): Promise<VolumeScene> {
    const scene = new VolumeScene(world, await world.namespace());
    const snapshot = await scene.snapshot("a", undefined, { finalizers: [ofProvisioner, "example.com/other"] });
    await scene.remove(snapshot);
    return scene;
  }

  it("removes it when no claim restores the snapshot, and says what it did", async () => {
    const scene = await deletedSnapshot();
    await scene.claim("done", { dataSource: fromSnapshot }, { phase: "Bound" });
    const { exitCode, stdout } = await remove(scene, "-o", "json");
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ object: "volumesnapshot/a", removed: ofProvisioner });
    expect(await scene.finalizers("a")).toEqual(["example.com/other"]);
    expect((await remove(scene)).stderr).toContain("does not have the finalizer");
  });

  it("refuses while a claim is restoring it", async () => {
    const scene = await deletedSnapshot();
    await restoring(scene);
    const { exitCode, stderr } = await remove(scene);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`may be being restored by ${scene.namespace}/restored`);
    expect(stderr).toContain("[Conflict]");
    expect(await scene.finalizers("a")).toEqual([ofProvisioner, "example.com/other"]);
  });

  it("refuses for a snapshot that is not being deleted, for users who may not see all claims, and for other objects", async () => {
    const scene = new VolumeScene(world, await world.namespace());
    await scene.snapshot("a", undefined, { finalizers: [ofProvisioner] });
    expect((await remove(scene)).stderr).toContain("is not being deleted");
    const rule = { apiGroups: ["snapshot.storage.k8s.io", ""], resources: ["*"], verbs: ["*"] };
    const deleted = await deletedSnapshot();
    const kubeconfig = await world.userOf(deleted.namespace, [rule]);
    const args = ["explain", "vs/a", "--remove-orphaned-finalizer", "-n", deleted.namespace];
    expect((await world.ramet(args, { kubeconfig })).stderr).toContain("[Forbidden]");
    expect(await deleted.finalizers("a")).toContain(ofProvisioner);
    expect((await world.ramet(["explain", "pvc/a", "--remove-orphaned-finalizer"])).exitCode).toBe(2);
  });
});

describe("a user of one namespace", () => {
  it("gets what the namespace shows, and what could not be read", async () => {
    const scene = new VolumeScene(world, await world.namespace());
    const rule = {
      apiGroups: ["snapshot.storage.k8s.io", "", "events.k8s.io"],
      resources: ["*"],
      verbs: ["get", "list"],
    };
    const kubeconfig = await world.userOf(scene.namespace, [rule]);
    const message = failedToTake("code = PermissionDenied desc = no");
    await failing(scene, message);
    const { stdout } = await world.ramet(["explain", "vs/a", "-n", scene.namespace, "-o", "json"], { kubeconfig });
    expect(JSON.parse(stdout)).toMatchObject({
      phase: "Failing",
      reason: "StorageForbidden",
      unknown: expect.arrayContaining(["you are not allowed to read volumesnapshotcontents"]) as string[],
    });
  });

  it("is told that the cluster has no such object", async () => {
    const { exitCode, stderr } = await world.ramet(["explain", "vs/none"]);
    expect(exitCode).toBe(3);
    expect(stderr).toContain("kubectl get volumesnapshots -n default");
  });
});

it("shows recorded texts on one line, limited and without control characters", async () => {
  const scene = new VolumeScene(world, await world.namespace());
  await failing(
    scene,
    `${failedToTake("code = Internal desc = \u001b[31mred\u202e")}\nCAUSE nothing${"x".repeat(5_000)}`,
  );
  const { stdout } = await world.ramet(["explain", "vs/a", "-n", scene.namespace]);
  expect(stdout.split("\n").every((line) => line.length < 500)).toBe(true);
  expect(stdout).toContain("^[[31mred\\u202e");
  expect(stdout.match(/^CAUSE/gm)).toHaveLength(1);
  expect(stdout).toMatch(/^LAST EVENT {2}SnapshotContentCheckandUpdateFailed, \d+s ago: /m);
});
