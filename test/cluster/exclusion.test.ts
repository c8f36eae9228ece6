import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { BesideWorld } from "./beside-world.ts";

const world = new BesideWorld();

beforeAll(async () => {
  await world.open();
  await world.start({ installCrds: true }).ready;
  await world.stopControllers();
});
afterAll(() => world.close());
afterEach(() => world.stopControllers());

const ignored = { "ramet.dev/ignore": "true" };

describe("an object with the label ramet.dev/ignore", () => {
  it("is left alone, until the label is removed", async () => {
    const namespace = await newNamespace("a");
    await world.start().ready;
    await create(namespace, "theirs", ignored);
    await create(namespace, "ours");
    await expect.poll(() => phaseOf(namespace, "ours")).toBeDefined();
    const theirs = await sandbox(namespace, "theirs");
    expect([theirs.status, theirs.metadata.finalizers]).toEqual([undefined, undefined]);
    expect(await podsIn(namespace)).toEqual(["ours"]);

    await label(namespace, "theirs", null);
    await expect.poll(() => podsIn(namespace)).toEqual(["ours", "theirs"]);
  });

  it("keeps its Pod and its data when the label is added, and is not shut down", async () => {
    const namespace = await newNamespace("b");
    await world.start().ready;
    await create(namespace, "one");
    await expect.poll(() => podsIn(namespace)).toEqual(["one"]);
    await label(namespace, "one", "true");
    const at = { namespace, name: "one" };
    await sandboxes().mergePatch(at, { spec: { shutdownTime: "2020-01-01T00:00:00Z" } });
    // The controllers have seen the changes when they have reconciled a later one.
    await create(namespace, "two");
    await expect.poll(() => podsIn(namespace)).toEqual(["one", "two"]);
    expect((await sandbox(namespace, "one")).metadata.deletionTimestamp).toBeUndefined();

    await label(namespace, "one", null);
    await expect.poll(() => podsIn(namespace)).toEqual(["two"]);
  });

  it("is replaced in its set, which deletes nothing of it, and counts again without the label", async () => {
    const namespace = await newNamespace("c");
    await world.start().ready;
    await world.client.resource(sandboxResources.sets).create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "SandboxSet",
      metadata: { name: "pool", namespace },
      spec: { replicas: 1, template },
    });
    const names = async () => (await sandboxes().list({ namespace })).items.map(({ metadata }) => metadata.name);
    await expect.poll(names).toHaveLength(1);
    const [first = ""] = await names();
    await label(namespace, first, "true");
    await expect.poll(names).toHaveLength(2);
    expect(await names()).toContain(first);
    await label(namespace, first, null);
    await expect.poll(names).toHaveLength(1);
  });
});

describe("controllers with a namespace selector", () => {
  it("serve the namespaces that it selects, and follow their labels", async () => {
    const served = await newNamespace("d", { team: "a" });
    const other = await newNamespace("e", { team: "b" });
    await world.start({ namespaces: { selector: "team in (a)" } }).ready;
    await create(other, "one");
    await create(served, "one");
    await expect.poll(() => podsIn(served)).toEqual(["one"]);
    expect((await sandbox(other, "one")).status).toBeUndefined();

    // Namespaces have a watch of their own, which reports the first change before the second one.
    await labelNamespace(served, null);
    await labelNamespace(other, "a");
    await expect.poll(() => podsIn(other)).toEqual(["one"]);

    await create(served, "two");
    // The controllers reconcile this object after the one before.
    await create(other, "two");
    await expect.poll(() => podsIn(other)).toEqual(["one", "two"]);
    expect(await podsIn(served)).toEqual(["one"]);
    expect((await sandbox(served, "two")).status).toBeUndefined();
  });

  it("serve a namespace that is created later", async () => {
    await world.start({ namespaces: { selector: "team=late" } }).ready;
    const namespace = await newNamespace("f", { team: "late" });
    await create(namespace, "one");
    await expect.poll(() => podsIn(namespace)).toEqual(["one"]);
  });
});

const template = { spec: { containers: [{ name: "main", image: "example/a" }] } };

function sandboxes() {
  return world.client.of(sandboxKind);
}

async function newNamespace(name: string, labels: Record<string, string> = {}): Promise<string> {
  await world.namespace(`team-${name}`, labels);
  return `team-${name}`;
}

async function create(namespace: string, name: string, labels: Record<string, string> = {}): Promise<void> {
  await world.create(sandboxResources.sandboxes, {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name, namespace, labels },
    spec: { template },
  });
}

async function label(namespace: string, name: string, value: string | null): Promise<void> {
  await sandboxes().mergePatch({ namespace, name }, { metadata: { labels: { "ramet.dev/ignore": value } } });
}

async function labelNamespace(name: string, team: string | null): Promise<void> {
  await world.client.resource(coreResources.namespaces).mergePatch({ name }, { metadata: { labels: { team } } });
}

function sandbox(namespace: string, name: string): Promise<Sandbox> {
  return sandboxes().get({ namespace, name });
}

async function phaseOf(namespace: string, name: string): Promise<string | undefined> {
  return (await sandbox(namespace, name)).status?.phase;
}

async function podsIn(namespace: string): Promise<string[]> {
  const { items } = await world.client.resource(coreResources.pods).list({ namespace });
  return items.map(({ metadata }) => metadata.name).sort();
}
