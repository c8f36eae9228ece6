import { afterAll, beforeAll, expect, it } from "vitest";
import { refOf } from "../../src/kube/resource-ref.ts";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { killed, ProviderWorld, type Kept } from "./provider-world.ts";

const namespace = "default";
const token = "correct-horse-battery-staple";
const template = {
  template: { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } },
};

let cluster: TestCluster;
let world: ProviderWorld;
/** The state of the resources in a stack. */
let data: Kept;
let dev: Kept;
/** The checkpoint of the first version. */
let retained: unknown;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  world = await ProviderWorld.open({ kubeconfig: cluster.directory.kubeconfig });
  const templates = (await cluster.client()).resource(refOf(sandboxTemplateKind));
  const { apiVersion } = sandboxTemplateKind;
  await templates.create({
    apiVersion,
    kind: "SandboxTemplate",
    metadata: { name: "base", namespace },
    spec: template,
  });
});

afterAll(async () => {
  await world.close();
  await cluster.remove();
});

it("fails with the step, its exit code and its last output, without showing a printed secret", async () => {
  const failed = world.up("namedSnapshot", requestFor("data", [secretFile, { run: "cat /etc/token; exit 3" }]));
  const error = await failed.catch((one: unknown) => one as Error & { reasons: string[]; outputs: Kept["outputs"] });
  expect(error).toMatchObject({ name: "InitError", id: "default/data" });
  const { message, reasons, outputs } = error as Error & { reasons: string[]; outputs: Kept["outputs"] };
  expect(message).toMatch(/The snapshot data was not built \(there is no version yet\): .*[Ss]tep 2.*3.*\[secret\]/s);
  expect([message, ...reasons, ...world.lines].join("\n")).not.toContain(token);
  const inputs = { digestKey: outputs["digestKey"] };
  data = await world.up("namedSnapshot", requestFor("data", [secretFile, { run: "true" }]), {
    id: "default/data",
    inputs,
    outputs,
  });
  expect(data.outputs).toMatchObject({ version: 1, digest: data.inputs["digest"] });
  retained = data.outputs["checkpointId"];
});

it("reports a version that was pinned by hand", async () => {
  const recipe = [secretFile, { run: "echo 2" }];
  data = await world.up("namedSnapshot", requestFor("data", recipe), data);
  expect(data.outputs["version"]).toBe(2);
  await (await snapshots()).mergePatch({ namespace, name: "data" }, { spec: { pinnedVersion: 1 } });
  await until("data", ({ status }) => status?.version === 1);
  const moved = await world.refresh(data);
  expect(moved?.outputs).toMatchObject({ version: 1 });
  expect(await world.preview("namedSnapshot", requestFor("data", recipe), moved ?? data)).toMatchObject({
    changes: true,
    replaces: [],
  });
  expect(world.lines.join("\n")).toMatch(/^data: digest .*; pinned to version 1, .*ramet snapshot unpin data$/);
  await (await snapshots()).mergePatch({ namespace, name: "data" }, { spec: { pinnedVersion: null, keepVersions: 2 } });
  await until("data", ({ status }) => status?.version === 2);
  const edited = await world.refresh(data);
  expect(edited?.outputs).toMatchObject({ version: 2, keepVersions: 2 });
  expect(await world.preview("namedSnapshot", requestFor("data", recipe), edited ?? data)).toMatchObject({
    changes: true,
  });
  expect(world.lines).toEqual(["data: keepVersions changes"]);
});

it("is replaced only for another name or namespace; a clone is deleted before its replacement", async () => {
  const before = { changes: true, deleteBeforeReplace: false };
  expect(await world.preview("namedSnapshot", requestFor("other", []), data)).toEqual({
    ...before,
    replaces: ["name"],
  });
  const elsewhere = { ...requestFor("data", []), namespace: "team-b" };
  expect(await world.preview("namedSnapshot", elsewhere, data)).toEqual({ ...before, replaces: ["namespace"] });
  const all = {
    ...requestFor("data", []),
    contents: ["filesystem"],
    keepVersions: 1,
    deletionPolicy: "Delete",
    stepCache: "None",
  };
  expect(await world.preview("namedSnapshot", all, data)).toMatchObject({ changes: true, replaces: [] });
  dev = await world.up("sandboxClone", cloneRequest("dev", "data"));
  const another = await world.preview("sandboxClone", cloneRequest("dev", "data@1"), dev);
  expect(another).toEqual({ changes: true, replaces: ["from"], deleteBeforeReplace: true });
});

it("continues with a clone whose process was killed, and detects a deleted one", async () => {
  killOnce(/^lost: /);
  await expect(world.up("sandboxClone", cloneRequest("lost", "data"))).rejects.toMatchObject(killed);
  await world.restart();
  const { uid } = (await (await sandboxes()).get({ namespace, name: "lost" })).metadata;
  const lost = await world.up("sandboxClone", cloneRequest("lost", "data"));
  expect((await (await sandboxes()).get({ namespace, name: "lost" })).metadata.uid).toBe(uid);
  await (await sandboxes()).delete({ namespace, name: "lost" });
  await expect.poll(() => world.refresh(lost)).toBeUndefined();
  // Deleting a missing object succeeds.
  await world.delete(lost);
});

it("is not deleted while another object refers to it, and names that object; a retained version is not rebuilt", async () => {
  const { apiVersion, kind } = sandboxSetKind;
  const annotations = { "ramet.dev/restore-from": "data" };
  const spec = { replicas: 0, template: { metadata: { annotations } } };
  const sets = (await cluster.client()).resource(refOf(sandboxSetKind));
  await sets.create({ apiVersion, kind, metadata: { name: "theirs", namespace }, spec });
  await expect(world.delete(data)).rejects.toThrow(
    /Cannot delete data yet: SandboxSet theirs refer to it.*run the command again/,
  );
  // Creating it again waits for the deletion too.
  world.onLine = (line) => {
    if (line.includes("theirs")) void sets.delete({ namespace, name: "theirs" });
  };
  const again = await world.up("namedSnapshot", requestFor("data", [secretFile, { run: "echo 2" }]), data);
  expect(world.lines.join("\n")).not.toMatch(/Step/);
  expect(again.outputs["checkpointId"]).toBe(data.outputs["checkpointId"]);
  data = again;
});

it("deletes its versions with deletionPolicy Delete, while a clone keeps running", async () => {
  data = await world.up(
    "namedSnapshot",
    { ...requestFor("data", [secretFile, { run: "echo 2" }]), deletionPolicy: "Delete" },
    data,
  );
  await world.delete(data);
  // Version 1 was retained when its snapshot was removed the first time; that of the second is of no effect on it.
  await expect.poll(checkpointIds).toEqual([retained]);
  expect(await world.refresh(data)).toBeUndefined();
  expect((await world.refresh(dev))?.outputs).toMatchObject({ address: dev.outputs["address"] });
  await world.delete(dev);
  expect(await world.refresh(dev)).toBeUndefined();
});

it("continues with a build whose process was killed before the state was written", async () => {
  killOnce(/Step 1 of 2/);
  const recipe = [{ run: "sleep 2" }, { run: "true" }];
  await expect(world.up("namedSnapshot", requestFor("slow", recipe))).rejects.toMatchObject(killed);
  await world.restart();
  const { uid } = (await (await snapshots()).get({ namespace, name: "slow" })).metadata;
  const slow = await world.up("namedSnapshot", requestFor("slow", recipe));
  expect(slow.outputs).toMatchObject({ version: 1, digest: slow.inputs["digest"] });
  expect((await (await snapshots()).get({ namespace, name: "slow" })).metadata.uid).toBe(uid);
  expect(world.lines.join("\n")).not.toMatch(/Starting the sandbox/);
});

const secretFile = { copy: { path: "/etc/token", secretKeyRef: { name: "data-recipe", key: "etc_token" } } };

function requestFor(name: string, recipe: object[]): Kept["inputs"] {
  const owner = `organization/program/test/${name}`;
  const own = recipe.includes(secretFile) ? { secrets: { etc_token: token }, digestKey: "" } : {};
  const from = { template: { name: "base" } };
  return { name, namespace, owner, from, source: { template }, recipe, timeout: "2 minutes", ...own };
}

function cloneRequest(name: string, from: string): Kept["inputs"] {
  const owner = `organization/program/test/${name}`;
  return { name, namespace, owner, from, template, ports: [8000], timeout: "2 minutes" };
}

/** Kills the process when it logs a matching line. */
function killOnce(pattern: RegExp): void {
  world.onLine = (line) => {
    if (!pattern.test(line)) return;
    world.onLine = () => undefined;
    void world.kill();
  };
}

async function snapshots(): Promise<ResourceClient<NamedSnapshot>> {
  return (await cluster.client()).of(namedSnapshotKind);
}

async function sandboxes(): Promise<ResourceClient<KubeObject>> {
  return (await cluster.client()).resource(refOf(sandboxKind));
}

async function checkpointIds(): Promise<(string | undefined)[]> {
  const read = (value: unknown): Checkpoint => Checkpoint.parse(value);
  const checkpoints = (await cluster.client()).resource(refOf(checkpointKind), read);
  return (await checkpoints.list({ namespace })).items.map(({ status }) => status?.checkpointId);
}

async function until(name: string, isSo: (snapshot: NamedSnapshot) => boolean): Promise<void> {
  const read = (value: unknown): NamedSnapshot => NamedSnapshot.parse(value);
  const at = { namespace, name };
  await cluster.until(refOf(namedSnapshotKind), at, read, (found) => found !== undefined && isSo(found));
}
