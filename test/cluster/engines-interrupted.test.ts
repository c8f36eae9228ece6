import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { enginesConfigMap } from "../../src/api/engine/engine.ts";
import type { NamedSnapshotStatus } from "../../src/api/kinds/named-snapshot-status.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { findCondition, isConditionTrue } from "../../src/kube/conditions.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { counterPort } from "../setup/counter.ts";
import { otherGuest } from "../setup/other-engine.ts";
import { type Cluster, type ClusterOptions, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count, counterTemplate as template } from "./counter.ts";

/**
 * Upgrades between two real engines, to and fro, with controllers in their own process. SIGKILL ends it at one step of each
 * upgrade; the next start finishes it.
 */
let cluster: Cluster;
const options: ClusterOptions = {
  startNode: () => Promise.reject(new Error("unset")),
  cellImage: "cell:1",
  ownProcess: true,
};

beforeAll(async () => {
  options.startNode = realNode({ cells: { "cell:2": { guest: await otherGuest() } } });
  cluster = await openCluster(options);
  await cluster.namespace("t");
  await create("SandboxTemplate", "base", { template });
  await create("Sandbox", "paused", { template });
  expect(await count(cluster, "paused")).toBe(1);
  await cluster.seen.sandboxes.resource.mergePatch(at("paused"), { spec: { paused: true } });
  await cluster.sandbox("t/paused", ({ status }) => status?.phase === "Paused");
}, 900_000);
afterAll(() => cluster.close());

const at = (name: string) => ({ namespace: "t", name });
async function create(kind: string, name: string, spec: object, metadata: object = {}): Promise<void> {
  const apiVersion = kind === "NamedSnapshot" ? "ramet.dev/v1alpha1" : "agents.kruise.io/v1alpha1";
  await cluster.create({ apiVersion, kind, metadata: { ...at(name), ...metadata }, spec });
}
const from = (origin: string) => ({ annotations: { "ramet.dev/restore-from": origin } });
const reached = (step: () => boolean | Promise<boolean>) =>
  vi.waitFor(
    async () => {
      expect(await step()).toBe(true);
    },
    { timeout: 90_000, interval: 5 },
  );

const statusOf = (name: string): NamedSnapshotStatus => cluster.seen.snapshots.store.get(`t/${name}`)?.status ?? {};
const made = (snapshot: string) =>
  cluster.seen.checkpoints.store
    .list()
    .filter(({ metadata }) => metadata.labels?.[labels.snapshot] === snapshot)
    .filter(({ metadata }) => metadata.labels?.[labels.purpose] === "version");
const owned = (kind: string, name: string): Sandbox[] =>
  cluster.seen.sandboxes.store
    .list()
    .filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.kind === kind && owner.name === name));
const isLeaving = ({ metadata }: Sandbox): boolean =>
  metadata.deletionTimestamp !== undefined || metadata.annotations?.[annotations.lock] !== undefined;
const isAvailable = (sandbox: Sandbox): boolean =>
  !isLeaving(sandbox) && sandbox.status?.phase === "Running" && isConditionTrue(sandbox.status.conditions, "Ready");
const imageOf = (name: string): string | undefined =>
  cluster.seen.pods.store.get(`t/${name}`)?.spec.containers[0]?.image;
const untilFull = (set: string, replicas: number, image: string) =>
  reached(() => {
    const all = owned("SandboxSet", set);
    return all.length === replicas && all.every((one) => isAvailable(one) && imageOf(one.metadata.name) === image);
  });

/** The objects of one upgrade. `image`: the new one. */
interface Names {
  snapshot: string;
  pool: string;
  warm: string;
  image: string;
}

async function listsNewEngine({ image }: Names): Promise<boolean> {
  const configMaps = cluster.client.resource(coreResources.configMaps);
  const found = await configMaps.find({ namespace: "ramet-system", name: enginesConfigMap });
  return JSON.stringify(found).includes(image);
}

const updated = (set: string, image: string): Sandbox[] =>
  owned("SandboxSet", set).filter(({ metadata }) => imageOf(metadata.name) === image);
const isReplacing = (set: string, image: string, replicas: number): boolean => {
  const earlier = owned("SandboxSet", set).filter(
    ({ metadata: { name } }) => ![undefined, image].includes(imageOf(name)),
  );
  return earlier.length < replicas || earlier.some(isLeaving);
};

const steps: [step: string, isReached: (names: Names) => boolean | Promise<boolean>][] = [
  // The only upgrade to an engine that nobody has seen before, so it is the first one.
  ["when the list of engines has the new one", listsNewEngine],
  ["after their start", () => true],
  ["when a build is recorded", ({ snapshot }) => statusOf(snapshot).build?.upgrade !== undefined],
  ["at the builder", ({ snapshot }) => owned("NamedSnapshot", snapshot).length > 0],
  ["in a step of the recipe", ({ snapshot }) => statusOf(snapshot).steps?.[1]?.state === "Running"],
  ["at the capture of the version", ({ snapshot }) => made(snapshot).length > 1],
  [
    "after the capture of the version",
    ({ snapshot }) => made(snapshot).filter(({ status }) => status?.phase === "Succeeded").length > 1,
  ],
  ["when the version has changed", ({ snapshot }) => statusOf(snapshot).version === 2],
  ["at the first new sandbox of a set", ({ pool, image }) => updated(pool, image).length > 0],
  ["when a new sandbox of a set is available", ({ pool, image }) => updated(pool, image).some(isAvailable)],
  ["when a set deletes an earlier sandbox", ({ pool, image }) => isReplacing(pool, image, 2)],
  ["when a set that follows the snapshot deletes one", ({ warm, image }) => isReplacing(warm, image, 1)],
];

let number = 0;
it.each(steps)(
  "finishes an upgrade whose controllers are killed %s: nothing is lost, and sets stay available",
  async (_, isReached) => {
    const earlier = options.cellImage ?? "";
    const image = earlier === "cell:1" ? "cell:2" : "cell:1";
    const id = ++number;
    const names: Names = { snapshot: `s-${id}`, pool: `pool-${id}`, warm: `warm-${id}`, image };
    const { snapshot, pool, warm } = names;
    const counted = `python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:${counterPort}/').read()"`;
    const recipe = [{ waitFor: { port: counterPort } }, { run: counted }];
    await create("NamedSnapshot", snapshot, { from: { template: { name: "base" } }, recipe, deletionPolicy: "Delete" });
    await create("SandboxSet", pool, { replicas: 2, template });
    await reached(() => statusOf(snapshot).version === 1);
    await create("SandboxSet", warm, { replicas: 1, template: { ...template, metadata: from(snapshot) } });
    await Promise.all([untilFull(pool, 2, earlier), untilFull(warm, 1, earlier)]);
    const first = statusOf(snapshot).versions?.[0];

    let fewest = [2, 1];
    const end = cluster.seen.sandboxes.store.subscribe(() => {
      const available = [pool, warm].map((set) => owned("SandboxSet", set).filter(isAvailable).length);
      fewest = fewest.map((least, index) => Math.min(least, available[index] ?? 0));
    });
    options.cellImage = image;
    await cluster.restartControllers();
    await reached(() => isReached(names));
    await cluster.restartControllers();

    await reached(() => findCondition(statusOf(snapshot).conditions, "EngineCurrent")?.status === "True");
    await Promise.all([untilFull(pool, 2, image), untilFull(warm, 1, image)]);
    end();
    expect(fewest).toEqual([2, 1]);
    const { build, versions, ...status } = statusOf(snapshot);
    expect(status).toMatchObject({ version: 2, latestVersion: 2 });
    expect(build).not.toHaveProperty("failure");
    // A step that may have started runs again in another builder.
    expect(build?.attempt).toBeLessThanOrEqual(2);
    expect(versions).toEqual([first, expect.objectContaining({ digest: first?.digest, replaces: [1] })]);
    expect(versions?.[1]?.engine).not.toBe(first?.engine);
    expect(made(snapshot).map(({ metadata }) => metadata.name)).toEqual(
      expect.arrayContaining(versions?.map(({ checkpointName }) => checkpointName) ?? []),
    );
    expect(made(snapshot)).toHaveLength(2);
    await reached(() => owned("NamedSnapshot", snapshot).length === 0);

    await create("Sandbox", `old-${id}`, {}, from(first?.checkpointId ?? ""));
    await create("Sandbox", `new-${id}`, {}, from(snapshot));
    expect([await count(cluster, `old-${id}`), await count(cluster, `new-${id}`)]).toEqual([2, 2]);
    expect([imageOf(`old-${id}`), imageOf(`new-${id}`)]).toEqual([earlier, image]);
    await remove(names);
  },
);

async function remove({ pool, warm, snapshot }: Names): Promise<void> {
  const { sets, snapshots, sandboxes } = cluster.seen;
  for (const name of [pool, warm]) await sets.resource.delete(at(name));
  for (const name of [`old-${number}`, `new-${number}`]) await sandboxes.resource.delete(at(name));
  await reached(() => cluster.seen.pods.store.list().length === 0);
  await snapshots.resource.delete(at(snapshot));
  await reached(() => made(snapshot).length === 0);
}

it("resumes a sandbox that was paused before all these upgrades", async () => {
  await cluster.seen.sandboxes.resource.mergePatch(at("paused"), { spec: { paused: false } });
  expect(await count(cluster, "paused")).toBe(2);
});
