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
  const metadata = new KubeClient(plane.connection, { metadataOnly: true });
  collecting = collectGarbage({ client: metadata }, stop.signal).then(() => metadata.close());
});
afterAll(async () => {
  stop.abort();
  await collecting;
  await client.close();
  await plane.stop();
});

const { configMaps } = coreResources;
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

it("collects objects of a kind that is defined later", async () => {
  const ref = namespacedRef("example.com/v1", "Widget");
  const versions = [
    {
      name: "v1",
      served: true,
      storage: true,
      schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
    },
  ];
  const spec = {
    group: "example.com",
    names: { kind: "Widget", plural: "widgets" },
    scope: "Namespaced",
    versions,
  };
  await client.resource(coreResources.crds).create({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.example.com" },
    spec,
  });
  await expect.poll(() => create(ref, "one").then(() => true, () => false), { timeout: 20_000 }).toBe(true); // prettier-ignore
  await owned("of-widget", ref, "one");
  await remove(ref, "one", "Foreground");
  await gone(ref, "one");
  await gone(configMaps, "of-widget");
});

it("deletes a namespace with what is in it", async () => {
  const namespaces = client.resource(coreResources.namespaces);
  await namespaces.create({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } });
  await create(configMaps, "inside", {}, { namespace: "team" });
  await namespaces.delete({ name: "team" });
  await expect.poll(() => namespaces.find({ name: "team" })).toBeUndefined();
});
