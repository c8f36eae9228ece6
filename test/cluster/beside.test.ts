import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { SandboxTemplate } from "../../src/api/kinds/sandbox-template.ts";
import { acsClone } from "../../src/backends/acs/acs-clone.ts";
import { silentLog } from "../../src/base/log.ts";
import { isLeftBehind } from "../../src/controllers/run-beside.ts";
import { runCollector } from "../../src/controllers/collect/run-collector.ts";
import { createInformers, sandboxResources } from "../../src/controllers/cluster/resources.ts";
import type { Informer } from "../../src/kube/informer.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { installOpenKruiseCrds } from "../setup/openkruise-crds.ts";
import { OpenKruiseStandIn } from "../setup/openkruise-stand-in.ts";
import { BesideWorld } from "./beside-world.ts";

/** Named snapshots on a stand-in for OpenKruise's controllers, with their CRDs in a real API server. */
const world = new BesideWorld();
let theirs: OpenKruiseStandIn;
const namespace = "team";

beforeAll(async () => {
  await world.open();
  await world.namespace(namespace);
});
afterAll(async () => {
  await world.stopControllers();
  await theirs.close();
  await world.close();
});

it("refuses to work without their kinds, and names the remedy", async () => {
  await expect(world.startBeside({ installCrds: true }).ready).rejects.toMatchObject({
    code: "NotFound",
    message: "Cannot work beside OpenKruise Agents: the kind Sandbox is not installed",
  });
  theirs = new OpenKruiseStandIn(world.client);
  await installOpenKruiseCrds(world.client);
});

it("installs its own CRDs and changes none of theirs", async () => {
  const before = await crds();
  await world.startBeside({ installCrds: true }).ready;
  await theirs.start();
  const after = await crds();
  for (const own of ["namedsnapshots.ramet.dev", "apikeys.ramet.dev", "clientsecrets.ramet.dev"])
    expect(after.delete(own)).toBe(true);
  expect(after).toEqual(before);
  await world.create(sandboxResources.templates, {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name: "base", namespace },
    spec: { template },
  });
});

describe("a named snapshot", () => {
  it("is built in their sandboxes, and captured by their Checkpoints", async () => {
    await apply("web", ["echo one > a", "cat a > b && echo two >> b"]);
    const { status } = await built("web", 1);
    const version = status?.versions?.[0];
    const checkpoint = Checkpoint.parse(await get(sandboxResources.checkpoints, version?.checkpointName ?? ""));
    expect(checkpoint.status).toMatchObject({ phase: "Succeeded", checkpointId: version?.checkpointId });
    expect(checkpoint.spec).toMatchObject({ keepRunning: true, persistentContents: ["memory", "filesystem"] });
    expect(checkpoint.spec.sandboxName).toBeUndefined();
    expect(theirs.captures.at(-1)).toBe(`${checkpoint.spec.podName ?? ""}: memory,filesystem`);
    // As their manager keeps it.
    const kept = SandboxTemplate.parse(await get(sandboxResources.templates, checkpoint.metadata.name));
    expect(kept.metadata.ownerReferences?.[0]?.uid).toBe(checkpoint.metadata.uid);
    await expect.poll(builders).toEqual([]);
  });

  it("is cloned by the annotations that their page shows", async () => {
    await clone("web-a", "web");
    await expect.poll(() => file("web-a", "b")).toBe("one\ntwo\n");
  });

  it("continues at the first changed step from their Checkpoint of the step before", async () => {
    await apply("web", ["echo one > a", "cat a > b && echo three >> b"]);
    const { status } = await built("web", 2);
    expect(status?.steps?.map(({ cached }) => cached)).toEqual([true, false]);
    await clone("web-b", "web");
    await expect.poll(() => file("web-b", "b")).toBe("one\nthree\n");
    expect(await file("web-a", "b")).toBe("one\ntwo\n");
  });

  it("is built from another one, and from a sandbox", async () => {
    await apply("child", ["echo four >> b"], { snapshot: { name: "web" } });
    await built("child", 1);
    await clone("child-a", "child");
    await expect.poll(() => file("child-a", "b")).toBe("one\nthree\nfour\n");
    await apply("copy", [], { sandbox: { name: "child-a" } });
    await built("copy", 1);
    await clone("copy-a", "copy");
    await expect.poll(() => file("copy-a", "b")).toBe("one\nthree\nfour\n");
  });

  it("survives controllers that stop during a step, and their controllers that stop during a capture", async () => {
    await apply("slow", ["echo begin > begun; until test -e go; do sleep 0.05; done", "echo end > c"]);
    const builder = await expect.poll(builders).toHaveLength(1).then(builders);
    await expect.poll(() => file(builder[0] ?? "", "begun")).toBe("begin\n");
    await world.stopControllers();
    await world.startBeside().ready;
    await theirs.stop();
    await theirs
      .guest(namespace, builder[0] ?? "")
      .client()
      .writeFile(join(dirOf(builder[0] ?? ""), "go"), Buffer.from(""));
    const { resource } = checkpoints();
    await expect
      .poll(async () => (await resource.list({ namespace })).items.some((one) => one.status === undefined))
      .toBe(true);
    await theirs.start();
    await built("slow", 1);
  });

  it("reports a capture that fails with the words of their controller, after three attempts", async () => {
    theirs.failing.set("broken-build", "no space on the node");
    await apply("broken", ["true"]);
    const { status } = await until("broken", ({ status: now }) => now?.build?.failure !== undefined);
    expect(status?.build?.failure?.message).toContain("no space on the node (3 attempts)");
    expect(status?.version).toBeUndefined();
    await expect.poll(builders).toEqual([]);
  });

  it("names the missing template of a checkpoint that cannot be cloned", async () => {
    const { checkpoint: at } = await versionOf("web");
    await world.client.resource(sandboxResources.templates).delete({ namespace, name: at });
    await apply("orphan", ["true"], { snapshot: { name: "web" } });
    const { status } = await until("orphan", ({ status: now }) => now?.message?.includes("cannot be cloned") ?? false);
    expect(status?.message).toContain("no SandboxTemplate with the name of the Checkpoint");
  });
});

describe("their set that names a snapshot", () => {
  it("gets the id of the current version, and rolls when the version moves", async () => {
    await apply("pool", ["echo first > v"]);
    await built("pool", 1);
    await world.create(sandboxResources.sets, {
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "SandboxSet",
      metadata: { name: "warm", namespace, annotations: { "ramet.dev/restore-from": "pool" } },
      spec: { replicas: 2, template },
    });
    await expect.poll(() => filesOfSet("warm", "v")).toEqual(["first\n", "first\n"]);
    await apply("pool", ["echo second > v"]);
    await built("pool", 2);
    await expect.poll(() => filesOfSet("warm", "v")).toEqual(["second\n", "second\n"]);
  });

  it("may name it in its template, from where the name moves to the set", async () => {
    const annotations = { "ramet.dev/restore-from": "pool@1" };
    await world.create(sandboxResources.sets, {
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "SandboxSet",
      metadata: { name: "pinned", namespace },
      spec: { replicas: 1, template: { ...template, metadata: { annotations } } },
    });
    await expect.poll(() => filesOfSet("pinned", "v")).toEqual(["first\n"]);
    const set = await get(sandboxResources.sets, "pinned");
    expect(set.metadata.annotations).toEqual(annotations);
  });
});

describe("garbage collection", () => {
  it("deletes expired checkpoints and revisions that their controller marked, and nothing else", async () => {
    const informers = createInformers(world.client, silentLog);
    const stop = new AbortController();
    const all = Object.values(informers) as Informer<KubeObject>[];
    const running = all.map((informer) => informer.run(stop.signal));
    await Promise.all(all.map((informer) => informer.synced()));
    const apiVersion = "agents.kruise.io/v1alpha1";
    for (const [name, ttlAfterFinished] of [
      ["short", "1s"],
      ["long", "30d"],
      ["kept", undefined],
    ] as const) {
      const spec = { podName: "web-a", ...(ttlAfterFinished && { ttlAfterFinished }) };
      await world.create(sandboxResources.checkpoints, {
        apiVersion,
        kind: "Checkpoint",
        metadata: { name, namespace },
        spec,
      });
      const phase = async () => (await checkpoints().resource.get({ namespace, name })).status?.phase;
      await expect.poll(phase).toBe("Succeeded");
    }
    const templates = world.client.resource(sandboxResources.templates);
    const revisions = await names(sandboxResources.templates, "warm-");
    expect(revisions.length).toBeGreaterThan(1);
    const marked = { metadata: { annotations: { "agents.kruise.io/cleanup-candidate": "true" } } };
    for (const name of revisions) await templates.mergePatch({ namespace, name }, marked);
    const { clock } = world.client;
    const collecting = { informers, clock, log: silentLog, collects: isLeftBehind, pauseMilliseconds: 50 };
    const collector = runCollector(collecting, stop.signal);
    await expect.poll(() => names(sandboxResources.templates, "warm-")).toHaveLength(1);
    await expect.poll(() => names(sandboxResources.checkpoints, "short")).toEqual([]);
    stop.abort();
    await Promise.all([collector, ...running]);
    expect(await names(sandboxResources.checkpoints, "long")).toEqual(["long"]);
    expect(await names(sandboxResources.checkpoints, "kept")).toEqual(["kept"]);
  });
});

const template = {
  metadata: { labels: { "alibabacloud.com/acs": "true" } },
  spec: { containers: [{ name: "main", image: "example/a" }] },
};

async function crds(): Promise<Map<string, unknown>> {
  const { items } = await world.client.resource(coreResources.crds).list();
  return new Map(items.map(({ metadata }) => [metadata.name, [metadata.generation, metadata.annotations]]));
}

function snapshots() {
  return world.client.of(namedSnapshotKind);
}

function checkpoints() {
  return { resource: world.client.of(checkpointKind) };
}

function get(ref: (typeof sandboxResources)[keyof typeof sandboxResources], name: string) {
  return world.client.resource(ref).get({ namespace, name });
}

async function apply(name: string, run: string[], from: object = { template: { name: "base" } }): Promise<void> {
  const { apiVersion } = namedSnapshotKind;
  const spec = { from, recipe: run.map((command) => ({ run: command })) };
  const manifest = { apiVersion, kind: "NamedSnapshot", metadata: { name, namespace }, spec };
  await snapshots().apply(manifest, { fieldManager: "test", force: true });
}

async function until(name: string, holds: (snapshot: NamedSnapshot) => boolean): Promise<NamedSnapshot> {
  let last: NamedSnapshot | undefined;
  await expect
    .poll(
      async () => {
        last = await snapshots().get({ namespace, name });
        return holds(last) || JSON.stringify(last.status?.message ?? "");
      },
      { timeout: 60_000 },
    )
    .toBe(true);
  return last!;
}

function built(name: string, version: number): Promise<NamedSnapshot> {
  return until(name, ({ status }) => status?.version === version);
}

async function versionOf(name: string): Promise<{ id: string; checkpoint: string }> {
  const { status } = await snapshots().get({ namespace, name });
  const found = status?.versions?.find(({ version }) => version === status.version);
  return { id: found?.checkpointId ?? "", checkpoint: found?.checkpointName ?? "" };
}

/** As a user does with kubectl: the kept template with the annotations. */
async function clone(name: string, snapshot: string): Promise<void> {
  const { id, checkpoint } = await versionOf(snapshot);
  const kept = SandboxTemplate.parse(await get(sandboxResources.templates, checkpoint));
  const { annotations, spec } = acsClone(kept.spec, id);
  await world.create(sandboxResources.sandboxes, {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name, namespace, annotations },
    spec,
  });
}

async function names(ref: (typeof sandboxResources)[keyof typeof sandboxResources], prefix: string): Promise<string[]> {
  const { items } = await world.client.resource(ref).list({ namespace });
  return items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith(prefix));
}

function dirOf(name: string): string {
  return theirs.guest(namespace, name).directory;
}

async function file(name: string, path: string): Promise<string> {
  return readFile(join(dirOf(name), path), "utf8");
}

async function filesOfSet(name: string, path: string): Promise<string[]> {
  const found = await sandboxesBy((one) => one.metadata.ownerReferences?.[0]?.name === name);
  return Promise.all(found.map((one) => file(one, path)));
}

function builders(): Promise<string[]> {
  return sandboxesBy(({ metadata }) => metadata.labels?.["ramet.dev/purpose"] === "build");
}

async function sandboxesBy(holds: (sandbox: Sandbox) => boolean): Promise<string[]> {
  const { items } = await world.client.of(sandboxKind).list({ namespace });
  return items.filter(holds).map(({ metadata }) => metadata.name);
}
