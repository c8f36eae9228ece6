import { afterAll, beforeAll, expect, it } from "vitest";
import { coreResources, namespacedRef, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { collectGarbage } from "../../src/local/garbage-collector.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";

/** The garbage collector of local clusters with a real API server, which has no kube-controller-manager. */
let plane: TestControlPlane;
let client: KubeClient;
let collecting: Promise<unknown>;
const stop = new AbortController();
beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
  await createEarly();
  const metadata = new KubeClient(plane.connection, { metadataOnly: true });
  collecting = collectGarbage({ client: metadata }, stop.signal).then(() => metadata.close());
});
afterAll(async () => {
  stop.abort();
  await collecting;
  await client.close();
  await plane.stop();
});

const { configMaps, leases, namespaces } = coreResources;
const at = (name: string, namespace = "default") => ({ namespace, name });

async function create(ref: ResourceRef, name: string, fields: object = {}, metadata: object = {}) {
  const apiVersion = ref.group === "" ? "v1" : `${ref.group}/${ref.version}`;
  return client.resource(ref).create({
    apiVersion,
    kind: ref.kind,
    metadata: { ...at(name), ...metadata },
    ...fields,
  });
}

async function owned(name: string, ref: ResourceRef, owner: string, more: object = {}): Promise<void> {
  const { metadata } = await client.resource(ref).get(at(owner));
  const apiVersion = ref.group === "" ? "v1" : `${ref.group}/${ref.version}`;
  const reference = { apiVersion, kind: ref.kind, name: owner, uid: metadata.uid, ...more };
  await create(configMaps, name, {}, { ownerReferences: [reference] });
}

type Policy = "Background" | "Foreground" | "Orphan";
async function remove(ref: ResourceRef, name: string, propagationPolicy: Policy): Promise<void> {
  await client.resource(ref).delete(at(name), { propagationPolicy });
}

const found = async (ref: ResourceRef, name: string, namespace?: string) =>
  client.resource(ref).find(at(name, namespace));
const gone = (ref: ResourceRef, name: string) =>
  expect.poll(() => found(ref, name), { timeout: 60_000 }).toBeUndefined();

const early = "early";
const leaseIn = (namespace?: string) => found(leases, early, namespace);

/** Deletions that begin before the collector follows the resources. It follows Leases after the core group. */
async function createEarly(): Promise<void> {
  await client.resource(namespaces).create({ apiVersion: "v1", kind: "Namespace", metadata: { name: early } });
  await create(leases, early, {}, { namespace: early, finalizers: ["example.com/held"] });
  await client.resource(namespaces).delete({ name: early });
  const { metadata } = await create(configMaps, early);
  const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: early, uid: metadata.uid }];
  await create(leases, early, {}, { ownerReferences });
  await remove(configMaps, early, "Orphan");
}

it("empties a namespace whose deletion began before the collector, and then lets it go", async () => {
  const deletedAt = async () => (await leaseIn(early))?.metadata.deletionTimestamp;
  await expect.poll(deletedAt, { timeout: 20_000 }).toBeDefined();
  expect(await client.resource(namespaces).find({ name: early })).toBeDefined();
  await client.resource(leases).removeFinalizer((await leaseIn(early))!, "example.com/held");
  await expect.poll(() => client.resource(namespaces).find({ name: early }), { timeout: 40_000 }).toBeUndefined();
  expect(await leaseIn(early)).toBeUndefined();
});

it("keeps the dependents of an orphaning deletion that began before the collector", async () => {
  await gone(configMaps, early);
  expect((await leaseIn())?.metadata).not.toHaveProperty("ownerReferences");
});

it("keeps an object that another owner still has, and removes the reference", async () => {
  const owner = await create(configMaps, "first");
  const second = await create(configMaps, "second");
  const ownerReferences = [owner, second].map(({ metadata: { name, uid } }) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    name,
    uid,
  }));
  await create(configMaps, "shared", {}, { ownerReferences });
  await remove(configMaps, "first", "Background");
  const uidsOfOwners = async () => (await found(configMaps, "shared"))?.metadata.ownerReferences?.map(({ uid }) => uid);
  await expect.poll(uidsOfOwners).toEqual([second.metadata.uid]);
  await remove(configMaps, "second", "Background");
  await gone(configMaps, "shared");
});

it("deletes an owner in the foreground only after the objects that block it", async () => {
  await create(configMaps, "top");
  await owned("middle", configMaps, "top", { blockOwnerDeletion: true });
  await owned("bottom", configMaps, "middle", { blockOwnerDeletion: true });
  const held = (await found(configMaps, "bottom"))!;
  const resource = client.resource(configMaps);
  const kept = await resource.addFinalizer(held, "example.com/held");
  await remove(configMaps, "top", "Foreground");
  const beingDeleted = async () => (await found(configMaps, "bottom"))?.metadata.deletionTimestamp;
  await expect.poll(beingDeleted).toBeDefined();
  expect(await found(configMaps, "top")).toBeDefined();
  expect(await found(configMaps, "middle")).toBeDefined();
  await resource.removeFinalizer((await found(configMaps, kept.metadata.name))!, "example.com/held");
  await gone(configMaps, "top");
  expect(await found(configMaps, "middle")).toBeUndefined();
});

it("removes the owner references of what an orphaning deletion leaves", async () => {
  await create(configMaps, "leaving");
  await owned("left", configMaps, "leaving");
  await remove(configMaps, "leaving", "Orphan");
  await gone(configMaps, "leaving");
  expect((await found(configMaps, "left"))?.metadata.ownerReferences ?? []).toEqual([]);
});

/** The versions of a CRD; the last one is stored. */
function versionsOf(...versions: { name: string; served: boolean }[]): object[] {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return versions.map((version, n) => ({ ...version, schema, storage: n === versions.length - 1 }));
}

async function define(ref: ResourceRef, versions = versionsOf({ name: ref.version, served: true })): Promise<void> {
  const { group, kind, plural } = ref;
  await client.resource(coreResources.crds).create({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: { group, names: { kind, plural }, scope: "Namespaced", versions },
  });
}

/** Creates an object as soon as its kind is served. */
const createServed = (ref: ResourceRef, name: string) =>
  expect.poll(() => create(ref, name).then(() => true, () => false), { timeout: 20_000 }).toBe(true); // prettier-ignore

it("collects objects of a kind that is defined later", async () => {
  const ref = namespacedRef("example.com/v1", "Widget");
  await define(ref);
  await createServed(ref, "one");
  await owned("of-widget", ref, "one");
  await remove(ref, "one", "Foreground");
  await gone(ref, "one");
  await gone(configMaps, "of-widget");
});

it("collects garbage whose owner's kind is defined later, in a version that its group does not prefer", async () => {
  const uid = "11111111-2222-4333-8444-555555555555";
  const ownerReferences = [{ apiVersion: "example.com/v1alpha1", kind: "Gadget", name: "none", uid }];
  await create(configMaps, "of-gadget", {}, { ownerReferences });
  await define(namespacedRef("example.com/v1alpha1", "Gadget"));
  await gone(configMaps, "of-gadget");
});

it("keeps the dependents of an owner whose kind loses a version", async () => {
  const ref = namespacedRef("gizmos.example.com/v1", "Gizmo");
  await define(ref, versionsOf({ name: "v2", served: true }, { name: "v1", served: true }));
  await createServed({ ...ref, version: "v2" }, "first");
  // The collector follows the preferred version: it deletes what the first one owned.
  await owned("of-first", { ...ref, version: "v2" }, "first");
  await remove(ref, "first", "Background");
  await gone(configMaps, "of-first");
  const spec = { versions: versionsOf({ name: "v2", served: false }, { name: "v1", served: true }) };
  await client.resource(coreResources.crds).mergePatch({ name: "gizmos.gizmos.example.com" }, { spec });
  await createServed(ref, "second");
  await owned("of-second", ref, "second");
  await create(configMaps, "last");
  await owned("of-last", configMaps, "last");
  await remove(configMaps, "last", "Background");
  await gone(configMaps, "of-last");
  expect(await found(configMaps, "of-second")).toBeDefined();
  await remove(ref, "second", "Background");
  await gone(configMaps, "of-second");
});

it("deletes a namespace with what is in it", async () => {
  await client.resource(namespaces).create({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } });
  await create(configMaps, "inside", {}, { namespace: "team" });
  await client.resource(namespaces).delete({ name: "team" });
  await expect.poll(() => client.resource(namespaces).find({ name: "team" })).toBeUndefined();
});
