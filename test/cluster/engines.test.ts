import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Sandbox, SandboxStatus } from "../../src/api/kinds/sandbox.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { otherEngine } from "../setup/other-engine.ts";
import { type Cluster, type ClusterOptions, openCluster } from "./controllers-cluster.ts";
import { count, counterTemplate as template } from "./counter.ts";
import { realNode } from "./controllers-real-node.ts";

/** Upgrades between real engines: another guest, and another gVisor. The node has all cell images, as a registry has. */
let cluster: Cluster;
const options: ClusterOptions = { startNode: () => Promise.reject(new Error("unset")), cellImage: "cell:1" };

beforeAll(async () => {
  const { "other-runsc": runsc, "other-guest": guest } = await otherEngine();
  options.startNode = realNode({ cells: { "cell:2": { guest }, "cell:3": { runsc } } });
  cluster = await openCluster(options);
  await cluster.namespace("t");
}, 900_000);
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
async function create(kind: string, name: string, spec: object, metadata: object = {}): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace: "t", ...metadata }, spec });
}
const sandbox = (name: string, holds: (status: SandboxStatus) => boolean): Promise<Sandbox> =>
  cluster.sandbox(`t/${name}`, ({ status }) => status !== undefined && holds(status));
const started = (name: string) => sandbox(name, ({ phase }) => phase === "Running" || phase === "Failed");
async function patch(name: string, change: object): Promise<void> {
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, change);
}
async function imageOf(name: string): Promise<string | undefined> {
  return (await cluster.seen.pods.resource.get({ namespace: "t", name })).spec.containers[0]?.image;
}
async function upgrade(cellImage: string): Promise<void> {
  options.cellImage = cellImage;
  await cluster.restartControllers();
}
const clone = (name: string, id: string) =>
  create("Sandbox", name, { template }, { annotations: { "ramet.dev/restore-from": id } });
async function capture(name: string, sandboxName: string): Promise<{ id: string; engine: string }> {
  await create("Checkpoint", name, { sandboxName });
  const { status } = await cluster.checkpoint(`t/${name}`, (one) => one.status?.phase === "Succeeded");
  return { id: status?.checkpointId ?? "", engine: status?.ramet?.engine ?? "" };
}
const engines = new Map<string, string>();
let first: { id: string; engine: string };

it("records the engine of a sandbox and of its checkpoint", async () => {
  await create("Sandbox", "a", { template });
  const { status } = await started("a");
  expect(status?.ramet?.engine).toMatch(/^[0-9a-f]{12}$/);
  expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([1, 2]);
  first = await capture("a-1", "a");
  expect(first.engine).toBe(status?.ramet?.engine);
  engines.set("cell:1", first.engine);
  const checkpoint = await cluster.checkpoint("t/a-1", () => true);
  expect(checkpoint.status?.ramet?.parts?.[0]?.needs?.cpuFeatures?.length).toBeGreaterThan(0);
});

for (const [image, other] of [
  ["cell:2", "another guest"],
  ["cell:3", "another gVisor"],
] as const) {
  it(`clones, resumes, moves and rolls back memory of the earlier engine after an upgrade to ${other}`, async () => {
    const named = (name: string) => `${name}-${image.at(-1)}`;
    const [paused, fresh, copy, moved] = [named("paused"), named("fresh"), named("copy"), named("moved")];
    await upgrade("cell:1");
    for (const name of [paused, moved]) {
      await create("Sandbox", name, { template });
      await started(name);
      expect(await count(cluster, name)).toBe(1);
    }
    await patch(paused, { spec: { paused: true } });
    await sandbox(paused, ({ conditions }) => findCondition(conditions, "SandboxPaused")?.status === "True");

    // A drain during the upgrade.
    await Promise.all([upgrade(image), cluster.seen.pods.resource.delete({ namespace: "t", name: moved })]);
    await create("Sandbox", fresh, { template });
    const { status } = await started(fresh);
    const engine = status?.ramet?.engine ?? "";
    expect([...engines.values()]).not.toContain(engine);
    engines.set(image, engine);
    expect(await imageOf(fresh)).toBe(image);

    await sandbox(moved, ({ ramet }) => ramet?.disruption?.outcome === "Migrated");
    expect(await imageOf(moved)).toBe("cell:1");
    expect(await count(cluster, moved)).toBe(2);

    await clone(copy, first.id);
    expect((await started(copy)).status).toMatchObject({ phase: "Running", ramet: { engine: first.engine } });
    expect(await imageOf(copy)).toBe("cell:1");
    expect(await count(cluster, copy)).toBe(3);

    await patch(paused, { spec: { paused: false } });
    await sandbox(paused, ({ conditions }) => findCondition(conditions, "SandboxResumed")?.status === "True");
    expect(await imageOf(paused)).toBe("cell:1");
    expect(await count(cluster, paused)).toBe(2);

    await patch(fresh, {
      metadata: { annotations: { [annotations.rollbackTo]: first.id, [annotations.rollbackRequest]: image } },
    });
    await sandbox(fresh, ({ conditions }) => findCondition(conditions, "RolledBack")?.status === "True");
    expect(await imageOf(fresh)).toBe("cell:1");
    expect(await count(cluster, fresh)).toBe(3);
  });
}

it("uses two engines at the same time, and both after a downgrade", async () => {
  await upgrade("cell:2");
  await create("Sandbox", "b", { template });
  await started("b");
  expect(await count(cluster, "b")).toBe(1);
  const second = await capture("b-1", "b");
  expect(second.engine).toBe(engines.get("cell:2"));
  await upgrade("cell:1");
  await Promise.all([clone("two", second.id), clone("one", first.id)]);
  await Promise.all([started("two"), started("one")]);
  expect([await imageOf("one"), await imageOf("two")]).toEqual(["cell:1", "cell:2"]);
  expect([await count(cluster, "one"), await count(cluster, "two")]).toEqual([3, 2]);
});

it("serves a claim, and a longer recipe with engineUpgrade Manual, from memory of an earlier engine", async () => {
  await upgrade("cell:1");
  const from = { template: { name: "base" } };
  const snapshots = cluster.seen.snapshots.resource;
  const settled = (steps: number) =>
    vi.waitFor(
      async () => {
        const { status } = await snapshots.get({ namespace: "t", name: "s" });
        expect(findCondition(status?.conditions, "Building")).toMatchObject({ status: "False", reason: "Built" });
        expect(status?.steps?.map(({ state }) => state)).toEqual(Array.from({ length: steps }, () => "Succeeded"));
        return status;
      },
      { timeout: 60_000, interval: 100 },
    );
  await create("SandboxTemplate", "base", { template });
  await cluster.create({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "s", namespace: "t" },
    spec: { from, recipe: [{ run: "echo one > /one" }], engineUpgrade: "Manual" },
  });
  expect((await settled(1))?.version).toBe(1);
  await upgrade("cell:2");
  await snapshots.mergePatch(
    { namespace: "t", name: "s" },
    { spec: { recipe: [{ run: "echo one > /one" }, { run: "cat /one > /two" }] } },
  );
  const built = await settled(2);
  expect([built?.version, built?.steps?.[0]?.cached]).toEqual([2, true]);

  await create("SandboxSet", "pool", { replicas: 1, template });
  await vi.waitFor(() => {
    expect(cluster.seen.sets.store.get("t/pool")?.status?.availableReplicas).toBe(1);
  }, 60_000);
  const restored = { annotations: { "ramet.dev/restore-from": first.id } };
  await create("SandboxClaim", "claim", { templateName: "pool", ...restored });
  const claimed = await vi.waitFor(() => {
    const { status } = cluster.seen.claims.store.get("t/claim") ?? {};
    expect(status).toMatchObject({ phase: "Completed", claimedReplicas: 1 });
    return status?.ramet?.sandboxes?.[0] ?? "";
  }, 60_000);
  expect(await imageOf(claimed)).toBe("cell:1");
  expect(await count(cluster, claimed)).toBe(3);
});

it("names the missing engine, and creates no Pod", async () => {
  const forgotten = { data: { [first.engine]: null } };
  const { resource } = cluster.seen.pods;
  await cluster.stopControllers();
  await cluster.client
    .resource({ group: "", version: "v1", plural: "configmaps", kind: "ConfigMap", namespaced: true })
    .mergePatch({ namespace: "ramet-system", name: "ramet-engines" }, forgotten);
  options.cellImage = "cell:2";
  await cluster.startControllers();
  await clone("lost", first.id);
  const { status } = await started("lost");
  expect(status?.message).toContain(`it needs the engine ${first.engine} (gVisor`);
  expect(await resource.find({ namespace: "t", name: "lost" })).toBeUndefined();
});
