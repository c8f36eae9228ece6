import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { enginesConfigMap, parseEngineList } from "../../src/api/engine/engine.ts";
import { Informer } from "../../src/kube/informer.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { longerGuest, otherGuest } from "../setup/other-engine.ts";
import { type Cluster, type ClusterOptions, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count, counterTemplate as template } from "./counter.ts";
import { type Held, HeldDrop } from "./held-drop.ts";
import { hurriedControllers } from "./hurried-controllers.ts";

/**
 * Controllers in their own process, which SIGKILL ends while they drop an engine that nothing needs. A checkpoint and a paused sandbox need the engine of `cell:1` all the time.
 */
let cluster: Cluster;
let line: HeldDrop;
const options: ClusterOptions = {
  startNode: () => Promise.reject(new Error("unset")),
  cellImage: "cell:1",
  ownProcess: true,
  startProcess: hurriedControllers,
  lineTo: async (_, controlPlane) => (line = await HeldDrop.open(controlPlane)),
};
/** The contents of the record since the start, in order. */
const records: Map<string, string>[] = [];
const following = new AbortController();
let firstId = "";
let needed = "";

beforeAll(async () => {
  const guests = { other: await otherGuest(), longer: await longerGuest() };
  options.startNode = realNode({ cells: { "cell:2": { guest: guests.other }, "cell:3": { guest: guests.longer } } });
  cluster = await openCluster(options);
  await cluster.namespace("t");
  const configMaps = new Informer({
    resource: cluster.client.resource(coreResources.configMaps),
    namespaces: ["ramet-system"],
  });
  configMaps.onChange(({ object }) => {
    if (object.metadata.name === enginesConfigMap) records.push(imagesOf(object));
  });
  void configMaps.run(following.signal);
  await start("kept");
  await start("paused");
  expect([await count(cluster, "kept"), await count(cluster, "paused")]).toEqual([1, 1]);
  ({ id: firstId, engine: needed } = await capture("kept"));
  await cluster.seen.sandboxes.resource.mergePatch(at("paused"), { spec: { paused: true } });
  await cluster.sandbox("t/paused", ({ status }) => status?.phase === "Paused");
  await remove("kept");
}, 900_000);
afterAll(async () => {
  following.abort();
  await cluster.close();
});

const at = (name: string) => ({ namespace: "t", name });
const apiVersion = "agents.kruise.io/v1alpha1";
function imagesOf(object: object): Map<string, string> {
  const { data } = object as { data?: Record<string, string> };
  return new Map([...parseEngineList(data)].map(([id, { name }]) => [id, name]));
}
async function record(): Promise<Map<string, string>> {
  return imagesOf(
    await cluster.client.resource(coreResources.configMaps).get({ namespace: "ramet-system", name: enginesConfigMap }),
  );
}
/** Starts a sandbox, and returns its engine. */
async function start(name: string, origin?: string): Promise<string> {
  const annotations = { ...(origin !== undefined && { "ramet.dev/restore-from": origin }) };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { ...at(name), annotations }, spec: { template } });
  const { status } = await cluster.sandbox(`t/${name}`, (one) =>
    ["Running", "Failed"].includes(one.status?.phase ?? ""),
  );
  expect(status?.phase, status?.message).toBe("Running");
  return status?.ramet?.engine ?? "";
}
async function capture(sandboxName: string): Promise<{ id: string; engine: string }> {
  await cluster.create({ apiVersion, kind: "Checkpoint", metadata: at(`${sandboxName}-1`), spec: { sandboxName } });
  const { status } = await cluster.checkpoint(`t/${sandboxName}-1`, (one) => one.status?.phase === "Succeeded");
  return { id: status?.checkpointId ?? "", engine: status?.ramet?.engine ?? "" };
}
async function remove(name: string): Promise<void> {
  await cluster.seen.sandboxes.resource.delete(at(name));
  await cluster.untilDeleted("sandboxes", `t/${name}`);
}
async function upgrade(cellImage: string): Promise<void> {
  options.cellImage = cellImage;
  await cluster.restartControllers();
}
const untilRecord = (holds: (images: Map<string, string>) => boolean) =>
  vi.waitFor(
    async () => {
      const images = await record();
      expect(holds(images), JSON.stringify([...images])).toBe(true);
    },
    { timeout: 60_000, interval: 50 },
  );

/** Uses `cell:2` once, makes `cell:3` current, and kills the controllers when they drop the engine of `cell:2`. */
async function killAtDrop(held: Held, name: string): Promise<{ dropped: string; release: () => void }> {
  await upgrade("cell:2");
  const dropped = await start(name);
  await upgrade("cell:3");
  await start(`${name}-now`);
  const { arrived, release } = line.hold(held, dropped);
  await remove(name);
  await arrived;
  await cluster.stopControllers();
  await cluster.seen.sandboxes.resource.delete(at(`${name}-now`));
  return { dropped, release };
}

it.each<[step: string, held: Held, isForgotten: boolean]>([
  ["before the API server has the request", "request", false],
  ["before they have the answer", "answer", true],
])(
  "repeats the drop of an engine if the controllers are killed %s, and keeps the others",
  async (_, held, isForgotten) => {
    const { dropped } = await killAtDrop(held, held);
    expect((await record()).has(dropped)).toBe(!isForgotten);
    await cluster.startControllers();
    await untilRecord((images) => !images.has(dropped));
    expect([...(await record()).values()].sort()).toEqual(["cell:1", "cell:3"]);
    await start(`copy-${held}`, firstId);
    expect(await count(cluster, `copy-${held}`)).toBe(2);
    await remove(`copy-${held}`);
  },
);

it("remembers an engine again that a late drop of killed controllers has removed while it is the current one", async () => {
  const { dropped, release } = await killAtDrop("request", "late");
  options.cellImage = "cell:2";
  await cluster.startControllers();
  expect(await start("again")).toBe(dropped);
  const before = records.length;
  release();
  await expect.poll(() => records.slice(before).some((images) => !images.has(dropped))).toBe(true);
  expect(await count(cluster, "again")).toBe(1);
  const { id, engine } = await capture("again");
  expect(engine).toBe(dropped);
  await untilRecord((images) => images.get(dropped) === "cell:2");
  await upgrade("cell:3");
  await remove("again");
  expect(await start("copy-again", id)).toBe(dropped);
  expect(await count(cluster, "copy-again")).toBe(2);
});

it("never lost the engine that a checkpoint and a paused sandbox needed all the time", async () => {
  await cluster.seen.sandboxes.resource.mergePatch(at("paused"), { spec: { paused: false } });
  expect(await count(cluster, "paused")).toBe(2);
  const since = records.findIndex((images) => images.has(needed));
  expect(since).toBeGreaterThanOrEqual(0);
  expect(records.slice(since).filter((images) => images.get(needed) !== "cell:1")).toEqual([]);
});
