import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Checkpoint, hasLayer } from "../../src/api/kinds/checkpoint.ts";
import { sandboxClaimKind } from "../../src/api/kinds/sandbox-claim.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { size } from "../../src/cli/output/render.ts";
import { runProgram } from "../../src/cli/program.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { treesBy } from "../../src/local/csi/storage/trees.ts";
import { dropLayers } from "../../src/local/node/layer-directories.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { baseTemplate, openSnapshotWorld, type SnapshotWorld } from "./named-snapshot-world.ts";

/** Named snapshots whose files are layers, with real cells and a directory as their store. */
let world: SnapshotWorld;

beforeAll(async () => {
  world = await openSnapshotWorld();
});
afterAll(() => world.close());

const from = { template: { name: "base" } };
const mebibyte = 1024 ** 2;
const checkpoints = () => world.cluster.seen.checkpoints.store.list();

async function ramet(...args: string[]): Promise<string> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: world.cluster.kubeconfigPath } });
  expect(await runProgram(io, [...args, "-n", "t"]), io.written("stderr")).toBe(0);
  return io.written("stdout");
}

const kept = async () => JSON.parse(await ramet("gc", "--dry-run", "-o", "json")) as object;
/** The size of the data of all Checkpoints that exist. */
const storedBytes = () => checkpoints().reduce((sum, { status }) => sum + (status?.ramet?.sizeBytes ?? 0), 0);

it("keeps the files of its steps in a layer below its clones, also after the layer's own object is deleted", async () => {
  const recipe = [
    // The process ends with the sandbox in which it was started.
    {
      run: "head -c 64M /dev/urandom > /opt/data; rm /usr/bin/env; echo left > /tmp/left; tail -f /dev/null > /tmp/out 2>&1 &",
    },
    { env: { COLOR: "blue" } },
    // A change of a file alone, deep in the image.
    { run: "echo $COLOR > /opt/color; echo CHANGED=yes >> /usr/lib/os-release" },
    { start: "python3 -m http.server 8000 --directory /opt" },
    { waitFor: { port: 8000 } },
  ];
  await world.apply("layered", { from, recipe, stepCache: "LastStep" });
  const { status } = await world.settled("layered");
  expect(findCondition(status?.conditions, "Ready")?.status).toBe("True");
  expect(status?.versions).toMatchObject([{ layers: true }]);
  expect(status?.steps?.every(({ cached }) => !cached)).toBe(true);
  const layer = checkpoints().find((one) => hasLayer(one.status?.ramet?.parts));
  const id = layer?.status?.checkpointId ?? "";
  const part = checkpoints().find(({ metadata }) => metadata.name === status?.versions?.[0]?.checkpointName)?.status
    ?.ramet?.parts?.[0];
  expect(part).toMatchObject({ contents: ["memory", "filesystem"], layers: [{ checkpointId: id }] });
  expect(layer?.status?.ramet?.sizeBytes).toBeGreaterThan(64 * mebibyte);
  const listed = JSON.parse(await ramet("checkpoint", "ls", "-o", "json")) as { items: Checkpoint[] };
  const pieces = listed.items.map(({ status }) => status?.ramet?.parts?.[0]?.pieces?.map(({ content }) => content));
  expect(pieces).toEqual(expect.arrayContaining([["filesystem"], ["memory", "filesystem"]]));
  expect(part?.pieces?.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)).toBe(part?.sizeBytes);
  // The files of the steps are not in the memory of the version.
  expect(part?.sizeBytes).toBeLessThan(40 * mebibyte);

  const layerBytes = layer?.status?.ramet?.sizeBytes ?? 0;
  const ownBytes = part?.sizeBytes ?? 0;
  expect(layer?.status?.ramet?.addedBytes).toBe(layerBytes);
  // The version needs the layer alone: its cached step is only kept to be used again.
  const [, row = ""] = (await ramet("snapshot", "history", "layered")).split("\n");
  expect(row.split(/ {2,}/).slice(3, 7)).toEqual([size(ownBytes), size(ownBytes + layerBytes), "0B", "yes"]);
  expect(await kept()).toMatchObject({
    kept: [{ kind: "snapshot", name: "layered", uniqueBytes: storedBytes(), sharedBytes: 0 }],
    keptBytes: storedBytes(),
  });

  await world.clone("one", "layered");
  expect(await world.read("one", "/opt/color")).toBe("blue\n");
  expect(await world.read("one", "/tmp/left")).toBe("left\n");
  expect(await world.read("one", "/usr/lib/os-release")).toMatch(/^PRETTY_NAME=.*\nCHANGED=yes\n$/s);
  await expect(world.read("one", "/usr/bin/env")).rejects.toMatchObject({ code: "NotFound" });
  expect(await world.get("one")).toContain("data");
  expect(world.cluster.seen.sandboxes.store.get("t/one")?.status?.ramet?.layers).toEqual([id]);

  const at = layer!.metadata;
  await world.cluster.seen.checkpoints.resource.delete(at);
  await world.cluster.untilDeleted("checkpoints", `t/${at.name}`);
  await world.write("one", "/opt/own", "of the clone");
  await world.cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { name: "of-one", namespace: "t" },
    spec: { sandboxName: "one" },
  });
  const captured = () => world.cluster.seen.checkpoints.store.get("t/of-one");
  await expect
    .poll(captured, { timeout: 60_000 })
    .toMatchObject({ status: { phase: "Succeeded", ramet: { parts: [{ layers: [{ checkpointId: id }] }] } } });
  const own = captured()?.status?.ramet?.sizeBytes ?? 0;
  expect(await kept()).toMatchObject({
    kept: [
      { kind: "snapshot", name: "layered", uniqueBytes: storedBytes() - own, sharedBytes: layerBytes },
      { kind: "checkpoint", name: "of-one", uniqueBytes: own, sharedBytes: layerBytes },
    ].sort((a, b) => b.uniqueBytes - a.uniqueBytes),
    keptBytes: storedBytes() + layerBytes,
  });
  const ofOne = (await ramet("checkpoint", "ls")).split("\n").find((line) => line.startsWith("of-one "));
  expect(ofOne).toMatch(new RegExp(` ${size(own)} +${size(own)} +${size(layerBytes)} `));
  await world.clone("two", captured()?.status?.checkpointId ?? "");
  expect(await world.read("two", "/opt/own")).toBe("of the clone");
  expect(await world.read("two", "/opt/color")).toBe("blue\n");
});

it("builds on the layer of unchanged steps", async () => {
  const run = { run: "echo one > /opt/one" };
  await world.apply("first", { from, recipe: [run] });
  await world.settled("first");
  await world.apply("second", { from, recipe: [run, { run: "echo two > /opt/two" }] });
  const { status } = await world.settled("second");
  expect(status?.steps?.map(({ cached }) => cached)).toEqual([true, false]);
  await world.clone("both", "second");
  expect(await world.read("both", "/opt/one")).toBe("one\n");
  expect(await world.read("both", "/opt/two")).toBe("two\n");
  expect(world.cluster.seen.sandboxes.store.get("t/both")?.status?.ramet?.layers).toHaveLength(2);
});

it("has files alone as a layer", async () => {
  await world.apply("files", {
    from,
    recipe: [{ run: "echo kept > /opt/kept" }],
    contents: ["filesystem"],
    layers: true,
  });
  await world.settled("files");
  await world.clone("booted", "files");
  expect(await world.read("booted", "/opt/kept")).toBe("kept\n");
});

it("is refused for a template that mounts a volume, which a layer does not have", async () => {
  await world.template("mounts", "512Mi", { mountPath: "/data", sizeLimit: "16Mi" });
  await world.apply("refused", { from: { template: { name: "mounts" } }, recipe: [{ run: "true" }], layers: true });
  expect((await world.settled("refused")).status?.message).toMatch(
    /The files of the steps cannot be layers: the template mounts volumes/,
  );
});

const apiVersion = "agents.kruise.io/v1alpha1";
const sandboxOf = (name: string) => world.cluster.seen.sandboxes.store.get(`t/${name}`);

it("gives its files to sandboxes of a set that were prepared without them, and again after a rollback to other files", async () => {
  const recipe = [{ run: "echo warm > /opt/warm; rm /usr/bin/env" }, { start: "sleep infinity" }];
  await world.apply("warm", { from, recipe, layers: true });
  await world.apply("plain", { from, recipe: [{ run: "echo plain > /opt/plain" }], layers: false });
  const [warm, plain] = [await world.settled("warm"), await world.settled("plain")].map(
    ({ status }) => status?.checkpointId ?? "",
  );
  const metadata = { name: "pool", namespace: "t" };
  const set = { replicas: 3, template: baseTemplate };
  await world.cluster.create({ apiVersion, kind: "SandboxSet", metadata, spec: set });
  const claim = { templateName: "pool", replicas: 3, annotations: { "ramet.dev/restore-from": "warm" } };
  await world.cluster.create({
    apiVersion,
    kind: "SandboxClaim",
    metadata: { ...metadata, name: "claim" },
    spec: claim,
  });
  const claims = world.cluster.client.of(sandboxClaimKind);
  const claimed = () => claims.get({ namespace: "t", name: "claim" });
  await expect.poll(async () => (await claimed()).status?.phase, { timeout: 120_000 }).toBe("Completed");
  const names = (await claimed()).status?.ramet?.sandboxes ?? [];
  expect(names).toHaveLength(3);

  const hasFiles = async (name: string, isWarm: boolean) => {
    const [present, absent] = isWarm ? ["warm", "plain"] : ["plain", "warm"];
    expect(await world.read(name, `/opt/${present}`)).toBe(`${present}\n`);
    await expect(world.read(name, `/opt/${absent}`)).rejects.toMatchObject({ code: "NotFound" });
    expect(sandboxOf(name)?.status?.ramet?.layers ?? []).toHaveLength(isWarm ? 1 : 0);
  };
  const [name = ""] = names;
  const pod = sandboxOf(name)?.status?.podInfo?.podUID;
  for (const each of names) {
    await world.cluster.sandbox(`t/${each}`, ({ status }) => status?.ramet?.restoredFrom === warm);
    await hasFiles(each, true);
  }
  for (const to of [plain, warm]) {
    const requested = { [annotations.rollbackTo]: to, [annotations.rollbackRequest]: `to-${to}` };
    await world.cluster.seen.sandboxes.resource.mergePatch(
      { namespace: "t", name },
      { metadata: { annotations: requested } },
    );
    await world.cluster.sandbox(`t/${name}`, ({ status }) => status?.ramet?.restoredFrom === to);
    await hasFiles(name, to === warm);
  }
  expect(sandboxOf(name)?.status?.podInfo?.podUID).toBe(pod);
});

it("leaves a node with its locks when nothing needs it, and stays as long as a sandbox is on it", async () => {
  await world.apply("kept", { from, recipe: [{ run: "echo kept > /opt/of-kept" }], layers: true });
  await world.settled("kept");
  await world.clone("keeper", "kept");
  const [id = ""] = sandboxOf("keeper")?.status?.ramet?.layers ?? [];
  const directory = join(dirname(world.cluster.storePath), "layers");
  const unneeded = join(directory, "t", "unknown.digest");
  await Promise.all(["", ".draft"].map((suffix) => mkdir(join(`${unneeded}${suffix}`, "opt"), { recursive: true })));
  await writeFile(`${unneeded}.lock`, "");
  // A cell of another namespace can write anything in place of a lock.
  const outside = join(directory, "outside");
  await mkdir(join(directory, "a", "of-directory.digest.lock"), { recursive: true });
  await symlink(outside, join(directory, "a", "of-link.digest.lock"));
  const { "ramet-link": link } = await acquireTools({ names: ["ramet-link"] });
  const trees = treesBy(link, new AbortController().signal);
  const drop = async (hours: number) => {
    const now = () => new Date(Date.now() + hours * 3_600_000);
    const client = new KubeClient(world.cluster.connection, { clock: { ...systemClock, now } });
    return dropLayers(directory, { trees, link, log: silentLog }, client).finally(() => client.close());
  };
  expect(await drop(0)).not.toContain(unneeded);
  expect(await drop(2)).toContain(unneeded);
  expect(await readdir(directory)).not.toContain("outside");
  const left = await readdir(join(directory, "t"));
  expect(left.filter((name) => name.startsWith("unknown"))).toEqual([]);
  expect(left.filter((name) => name.startsWith(id))).toHaveLength(2);
  expect(await world.read("keeper", "/opt/of-kept")).toBe("kept\n");
});
