import { expect, it } from "vitest";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { identifyProcess, isProcessRunning } from "../../src/base/process-identity.ts";
import { coreResources, refOf, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { readStatus } from "../../src/local/cluster-status.ts";
import { runningCluster } from "./running-cluster.ts";

/** Owners and deletions in a local cluster, which has no kube-controller-manager, and at last its own end in the middle of a start. */
const cluster = runningCluster();

const refs = {
  sandboxes: refOf(sandboxKind),
  sets: refOf(sandboxSetKind),
  snapshots: refOf(namedSnapshotKind),
  configMaps: coreResources.configMaps,
};
const at = (name: string, namespace = "default") => ({ namespace, name });
const program = { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] };

async function create(ref: ResourceRef, name: string, fields: object = {}, metadata: object = {}) {
  const apiVersion = ref.group === "" ? "v1" : `${ref.group}/${ref.version}`;
  return (await cluster.client()).resource(ref).create({
    apiVersion,
    kind: ref.kind,
    metadata: { ...at(name), ...metadata },
    ...fields,
  });
}

async function owned(name: string, ref: ResourceRef, owner: string, more: object = {}): Promise<void> {
  const { metadata } = await (await cluster.client()).resource(ref).get(at(owner));
  const apiVersion = ref.group === "" ? "v1" : `${ref.group}/${ref.version}`;
  const reference = { apiVersion, kind: ref.kind, name: owner, uid: metadata.uid, ...more };
  await create(refs.configMaps, name, {}, { ownerReferences: [reference] });
}

type Policy = "Background" | "Foreground" | "Orphan";
async function remove(ref: ResourceRef, name: string, propagationPolicy: Policy): Promise<void> {
  await (await cluster.client()).resource(ref).delete(at(name), { propagationPolicy });
}

const found = async (ref: ResourceRef, name: string, namespace?: string) =>
  (await cluster.client()).resource(ref).find(at(name, namespace));
const gone = (ref: ResourceRef, name: string) =>
  expect.poll(() => found(ref, name), { timeout: 60_000 }).toBeUndefined();

it("deletes a ConfigMap with the Sandbox that owns it", async () => {
  await create(refs.sandboxes, "owner", { spec: { template: { spec: program } } });
  await owned("owned", refs.sandboxes, "owner");
  await create(refs.configMaps, "other");
  await remove(refs.sandboxes, "owner", "Background");
  await gone(refs.sandboxes, "owner");
  await gone(refs.configMaps, "owned");
  expect(await found(refs.configMaps, "other")).toBeDefined();
});

it("ends the deletion of a SandboxSet and a NamedSnapshot in the foreground", async () => {
  await create(refs.sets, "pool", { spec: { replicas: 1, template: { spec: program } } });
  const recipe = [{ run: "true" }];
  await create(refs.snapshots, "data", { spec: { from: { template: { name: "ramet-python" } }, recipe } });
  const statusOf = async (ref: ResourceRef, name: string) =>
    ((await found(ref, name)) as { status?: Record<string, unknown> } | undefined)?.status;
  await expect.poll(() => statusOf(refs.sets, "pool"), { timeout: 60_000 }).toMatchObject({ availableReplicas: 1 });
  await expect.poll(() => statusOf(refs.snapshots, "data"), { timeout: 90_000 }).toMatchObject({ version: 1 });
  await remove(refs.sets, "pool", "Foreground");
  await remove(refs.snapshots, "data", "Foreground");
  await gone(refs.sets, "pool");
  await gone(refs.snapshots, "data");
  expect((await (await cluster.client()).resource(refs.sandboxes).list({ namespace: "default" })).items).toEqual([]);
});

it("deletes a namespace with what is in it", async () => {
  const namespaces = (await cluster.client()).resource(coreResources.namespaces);
  await namespaces.create({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } });
  await create(refs.sandboxes, "inside", { spec: { template: { spec: program } } }, { namespace: "team" });
  await create(refs.configMaps, "inside", {}, { namespace: "team" });
  await namespaces.delete({ name: "team" });
  await expect.poll(() => namespaces.find({ name: "team" }), { timeout: 60_000 }).toBeUndefined();
});

it("starts right after a start that was interrupted", async () => {
  await cluster.down();
  const interrupted = new AbortController();
  const first = cluster.up(undefined, undefined, interrupted.signal);
  await expect.poll(() => readStatus(cluster.directory.status)?.phase).toBe("starting");
  const supervisor = identifyProcess(cluster.pid("supervisor"));
  interrupted.abort();
  await expect(first).rejects.toMatchObject({ code: "Canceled" });
  expect(isProcessRunning(supervisor!)).toBe(false);
  expect((await cluster.up()).already).toBe(false);
});
