import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { type Claim, claimsIn } from "../../src/kube/volumes/volumes.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { inPhase, RulesWorld } from "./rules-world.ts";

/** The real API server and controllers over stand-in cells, which mount no volume: the Pods and the claims are tested. */
const world = new RulesWorld();
beforeAll(() => world.open());
afterAll(() => world.close());
beforeEach(() => world.inNewNamespace());

const restoreFrom = "ramet.dev/restore-from";
const containers = [
  {
    name: "main",
    image: "counter",
    volumeMounts: [
      { name: "home", mountPath: "/home" },
      { name: "data", mountPath: "/data" },
    ],
  },
];
const claimSpec = (mode: string) => ({ accessModes: [mode], resources: { requests: { storage: "1Gi" } } });
const sandboxSpec = (mode: string) => ({
  template: { spec: { containers, volumes: [{ name: "data", persistentVolumeClaim: { claimName: "team-data" } }] } },
  volumeClaimTemplates: [{ metadata: { name: "home" }, spec: claimSpec(mode) }],
});

const claims = () => claimsIn(world.cluster.client);
const claim = (name: string): Promise<Claim | undefined> => claims().find({ namespace: world.namespace, name });
const owners = async (name: string) => (await claim(name))?.metadata.ownerReferences?.map((owner) => owner.name);

/** The API server keeps a claim that may be in use until another controller, which does not run here, has removed a finalizer. */
const isDeleted = async (name: string): Promise<boolean> => {
  const found = await claim(name);
  return found === undefined || found.metadata.deletionTimestamp !== undefined;
};

/** A running sandbox `a` with two claims, one of its own and one that its template names, and the id of a checkpoint. */
async function source(mode = "ReadWriteMany"): Promise<string> {
  const metadata = { name: "team-data", namespace: world.namespace };
  await claims().create({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata,
    spec: claimSpec("ReadWriteMany"),
  });
  await world.create("Sandbox", "a", sandboxSpec(mode));
  await world.sandbox("a", inPhase("Running"));
  return world.taken("one", "a");
}

/** Creates a clone, and resolves when it is Running or Failed. */
async function clone(name: string, from: string, choice?: string): Promise<Sandbox> {
  const chosen = choice === undefined ? {} : { [annotations.volumesOnRestore]: choice };
  await world.create("Sandbox", name, {}, { [restoreFrom]: from, ...chosen });
  return world.sandbox(name, inPhase("Running", "Failed"));
}

async function mounted(name: string): Promise<Record<string, string>> {
  const pod = await world.cluster.pod(world.at(name), () => true);
  return Object.fromEntries(
    (pod.spec.volumes ?? []).flatMap((volume) => {
      const { claimName } = (volume["persistentVolumeClaim"] ?? {}) as { claimName?: string };
      return claimName === undefined ? [] : [[volume.name, claimName]];
    }),
  );
}

async function remove(name: string): Promise<void> {
  const { resource } = world.cluster.seen.sandboxes;
  await resource.delete({ namespace: world.namespace, name });
  await world.cluster.untilDeleted("sandboxes", world.at(name));
}

const ready = ({ status }: Sandbox) => findCondition(status?.conditions, "Ready");

describe("a clone of a checkpoint without the data of its source's claims", () => {
  it("is refused without a choice, before anything is created, and says what to set", async () => {
    const id = await source();
    const failed = await clone("b", id);
    expect(failed.status?.phase).toBe("Failed");
    expect(ready(failed)?.reason).toBe("VolumesNotCaptured");
    for (const word of ["home-a", "team-data", "Empty", "Shared", annotations.volumesOnRestore])
      expect(failed.status?.message).toContain(word);
    expect(await claim("home-b")).toBeUndefined();
    expect(world.cluster.seen.pods.store.get(world.at("b"))).toBeUndefined();
  });

  it("is refused with another word", async () => {
    const failed = await clone("b", await source(), "Copy");
    expect(ready(failed)).toMatchObject({ reason: "InvalidArgument" });
    expect(failed.status?.message).toContain('"Copy"');
  });

  it("gets new claims with Empty, also instead of the one that the template names, which are deleted with it", async () => {
    const b = await clone("b", await source(), "Empty");
    expect(b.status?.phase).toBe("Running");
    expect(await mounted("b")).toEqual({ data: "data-b", home: "home-b" });
    expect(await owners("home-b")).toEqual(["b"]);
    expect(await owners("data-b")).toEqual(["b"]);
    expect((await claim("data-b"))?.spec).toMatchObject(claimSpec("ReadWriteMany"));
    await remove("b");
    expect([await isDeleted("home-b"), await isDeleted("data-b")]).toEqual([true, true]);
    expect([await isDeleted("home-a"), await isDeleted("team-data")]).toEqual([false, false]);
  });

  it("mounts the claims of its source with Shared, which outlive the source and are deleted with the last sandbox", async () => {
    const b = await clone("b", await source(), "Shared");
    expect(b.status?.phase).toBe("Running");
    expect(await mounted("b")).toEqual({ data: "team-data", home: "home-a" });
    expect(await owners("home-a")).toEqual(["a", "b"]);
    expect(await claim("home-b")).toBeUndefined();
    await remove("a");
    expect([await isDeleted("home-a"), await owners("home-a")]).toEqual([false, ["b"]]);
    await remove("b");
    expect([await isDeleted("home-a"), await isDeleted("team-data")]).toEqual([true, false]);
  });

  it("keeps the shared claims over a pause, and over the end of the controllers at any moment", async () => {
    await clone("b", await source(), "Shared");
    await world.patch("b", { paused: true });
    await world.sandbox("b", (status) => findCondition(status.conditions, "SandboxPaused")?.status === "True");
    await world.cluster.restartControllers();
    await world.patch("b", { paused: false });
    await world.sandbox("b", inPhase("Running"));
    expect(await mounted("b")).toEqual({ data: "team-data", home: "home-a" });
  });

  it.each([
    ["Empty", { data: "data-b", home: "home-b" }],
    ["Shared", { data: "team-data", home: "home-a" }],
  ])("gets its volumes when it is resumed if it was created paused: %s", async (choice, volumes) => {
    const notes = { [restoreFrom]: await source(), [annotations.volumesOnRestore]: choice };
    await world.create("Sandbox", "b", { paused: true }, notes);
    await world.sandbox("b", inPhase("Paused"));
    await remove("a");
    // With Shared, it is the last sandbox that has the claim of the source.
    expect(await isDeleted("home-a")).toBe(choice === "Empty");
    await world.cluster.restartControllers();
    await world.patch("b", { paused: false });
    await world.sandbox("b", inPhase("Running", "Failed"));
    expect(await mounted("b")).toEqual(volumes);
    for (const name of Object.values(volumes)) expect(await isDeleted(name)).toBe(false);
    await remove("b");
    expect(await isDeleted(volumes.home)).toBe(true);
  });

  it("runs on the node of its source if the claim can be attached to one node only", async () => {
    await clone("b", await source("ReadWriteOnce"), "Shared");
    const { spec } = await world.cluster.pod(world.at("b"), () => true);
    expect(JSON.stringify(spec["affinity"])).toContain('{"key":"metadata.name","operator":"In","values":["stand-in"]}');
  });

  it("is refused with Shared if only one Pod can mount the claim", async () => {
    const failed = await clone("b", await source("ReadWriteOncePod"), "Shared");
    expect(ready(failed)?.reason).toBe("VolumeNotShareable");
    expect(failed.status?.message).toContain("home-a");
  });

  it("is refused with Shared if the claim was deleted with its source", async () => {
    const id = await source();
    await remove("a");
    const failed = await clone("b", id, "Shared");
    expect(ready(failed)?.reason).toBe("NotFound");
    expect(failed.status?.message).toContain("Set ramet.dev/volumes-on-restore to Empty");
  });

  it("makes its own clones choose again", async () => {
    await clone("b", await source(), "Empty");
    const again = await clone("c", await world.taken("two", "b"));
    expect(ready(again)?.reason).toBe("VolumesNotCaptured");
    expect(again.status?.message).toContain("home-b");
  });
});

describe("a restore in place of such a checkpoint", () => {
  const answer = async (name: string, patch: Record<string, string>) => {
    const { resource } = world.cluster.seen.sandboxes;
    await resource.mergePatch({ namespace: world.namespace, name }, { metadata: { annotations: patch } });
    const { status } = await world.sandbox(name, ({ conditions, ramet }) => {
      const { status: answered, reason } = findCondition(conditions, "RolledBack") ?? {};
      return answered !== undefined && reason !== "Restoring" && ramet?.rollback !== undefined;
    });
    return findCondition(status?.conditions, "RolledBack");
  };

  it("is refused without a choice, and keeps the current data of the volumes with Shared", async () => {
    const id = await source();
    expect(await answer("a", { "ramet.dev/rollback-to": id })).toMatchObject({ reason: "VolumesNotCaptured" });
    const { resource } = world.cluster.seen.sandboxes;
    const request = { "ramet.dev/rollback-request": "2", [annotations.volumesOnRestore]: "Shared" };
    await resource.mergePatch({ namespace: world.namespace, name: "a" }, { metadata: { annotations: request } });
    const done = await world.sandbox(
      "a",
      ({ conditions }) => findCondition(conditions, "RolledBack")?.reason === "Succeeded",
    );
    expect(done.status?.ramet?.restoredFrom).toBe(id);
    expect(await isDeleted("home-a")).toBe(false);
  });

  it("is refused with Empty for the source itself: no data is deleted", async () => {
    const id = await source();
    const refused = await answer("a", { "ramet.dev/rollback-to": id, [annotations.volumesOnRestore]: "Empty" });
    expect(refused).toMatchObject({ status: "False", reason: "VolumesNotCaptured" });
    expect(refused?.message).toContain("Shared");
  });

  it("is refused for a claim without a choice before a sandbox is taken, and keeps the claims of the set's sandbox with Empty", async () => {
    const own = { metadata: { name: "home" }, spec: claimSpec("ReadWriteOnce") };
    const template = { spec: { containers: [{ name: "main", image: "counter" }] } };
    await world.create("Sandbox", "a", { template, volumeClaimTemplates: [own] });
    await world.sandbox("a", inPhase("Running"));
    const id = await world.taken("one", "a");
    await world.create("SandboxSet", "pool", { replicas: 1, template, volumeClaimTemplates: [own] });
    const completed = async (name: string, choice: Record<string, string>) => {
      const notes = { [restoreFrom]: id, ...choice };
      await world.create("SandboxClaim", name, { templateName: "pool", claimTimeout: "30s", annotations: notes });
      const { store } = world.cluster.seen.claims;
      await expect.poll(() => store.get(world.at(name))?.status?.phase, { timeout: 40_000 }).toBe("Completed");
      return store.get(world.at(name))?.status;
    };
    const refused = await completed("first", {});
    expect(findCondition(refused?.conditions, "Completed")?.reason).toBe("VolumesNotCaptured");
    const taken = await completed("second", { [annotations.volumesOnRestore]: "Empty" });
    expect(taken?.claimedReplicas).toBe(1);
    const [name = ""] = taken?.ramet?.sandboxes ?? [];
    expect(await mounted(name)).toEqual({ home: `home-${name}` });
  });
});

describe("a claim that is deleted while its sandbox is paused", () => {
  it("is not replaced by an empty one until the user says so", async () => {
    await source();
    await world.patch("a", { paused: true });
    await world.sandbox("a", (status) => findCondition(status.conditions, "SandboxPaused")?.status === "True");
    await forceDelete("home-a");
    await world.patch("a", { paused: false });
    const waiting = await world.sandbox("a", ({ message }) => message?.includes("home-a") === true);
    expect(ready(waiting)?.reason).toBe("VolumesNotCaptured");
    expect(await claim("home-a")).toBeUndefined();
    const { resource } = world.cluster.seen.sandboxes;
    const chosen = { [annotations.volumesOnRestore]: "Empty" };
    await resource.mergePatch({ namespace: world.namespace, name: "a" }, { metadata: { annotations: chosen } });
    await world.sandbox("a", inPhase("Running"));
    expect(await owners("home-a")).toEqual(["a"]);
  });

  it("can be created again with its data", async () => {
    await source();
    await world.patch("a", { paused: true });
    await world.sandbox("a", (status) => findCondition(status.conditions, "SandboxPaused")?.status === "True");
    await forceDelete("home-a");
    const metadata = { name: "home-a", namespace: world.namespace };
    const spec = claimSpec("ReadWriteMany");
    await claims().create({ apiVersion: "v1", kind: "PersistentVolumeClaim", metadata, spec });
    await world.patch("a", { paused: false });
    await world.sandbox("a", inPhase("Running"));
    expect(await owners("home-a")).toBeUndefined();
  });

  async function forceDelete(name: string): Promise<void> {
    const at = { namespace: world.namespace, name };
    await claims().delete(at);
    await claims()
      .mergePatch(at, { metadata: { finalizers: null } })
      .catch(() => undefined);
    await expect.poll(() => claim(name)).toBeUndefined();
  }
});

describe("a NamedSnapshot", () => {
  it("of a template with claims is built only with a choice", async () => {
    const spec = { template: { spec: { containers: [{ name: "main", image: "counter" }] } } };
    const own = { metadata: { name: "home" }, spec: claimSpec("ReadWriteOnce") };
    await world.create("SandboxTemplate", "t", { ...spec, volumeClaimTemplates: [own] });
    const { resource, store } = world.cluster.seen.snapshots;
    const metadata = { name: "s", namespace: world.namespace };
    await resource.create({
      apiVersion: "ramet.dev/v1alpha1",
      kind: "NamedSnapshot",
      metadata,
      spec: { from: { template: { name: "t" } }, recipe: [] },
    });
    const building = () => findCondition(store.get(world.at("s"))?.status?.conditions, "Building");
    await expect.poll(() => building()?.reason, { timeout: 20_000 }).toBe("VolumesNotCaptured");
    await resource.mergePatch(metadata, { metadata: { annotations: { [annotations.volumesOnRestore]: "Empty" } } });
    await expect.poll(() => building()?.reason, { timeout: 20_000 }).toBe("Built");
    const id = store.get(world.at("s"))?.status?.checkpointId ?? "";
    expect(ready(await clone("b", id))?.reason).toBe("VolumesNotCaptured");
  });
});
