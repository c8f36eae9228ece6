import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parse as parseYaml, stringify as stringifyYaml } from "yaml";
import { RametError } from "../../../src/base/errors.ts";
import { Applier } from "../../../src/kube/apply.ts";
import { delay, systemClock } from "../../../src/base/clock.ts";
import { runController, watching } from "../../../src/kube/controller.ts";
import { EventRecorder } from "../../../src/kube/events.ts";
import { Informer } from "../../../src/kube/informer.ts";
import { KubeClient, type RequestRecord } from "../../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../../src/kube/kubeconfig.ts";
import { runWhileLeading } from "../../../src/kube/lease.ts";
import { coreResources, type ResourceRef } from "../../../src/kube/resource-ref.ts";
import { isExpired } from "../../../src/kube/status-error.ts";
import { StatusWriter, type WithStatus } from "../../../src/kube/status-writer.ts";
import { startControlPlane, type OwnControlPlane } from "../../setup/control-plane.ts";
import { eventually } from "./eventually.ts";

const namespace = "default";
const group = "test.ramet.dev";
const plantsRef: ResourceRef = { group, version: "v1", plural: "plants", kind: "Plant", namespaced: true };
const plant = (name: string, spec: object = {}) => ({
  apiVersion: `${group}/v1`,
  kind: "Plant",
  metadata: { name, namespace },
  spec,
});

let plane: OwnControlPlane;
let client: KubeClient;
let requests: RequestRecord[] = [];

beforeAll(async () => {
  plane = await startControlPlane();
  client = new KubeClient(await connectionFromKubeconfig({ path: plane.kubeconfigPath }), {
    onRequest: (record) => requests.push(record),
  });
  const namespaces = client.resource(coreResources.namespaces);
  await vi.waitUntil(() => namespaces.find({ name: namespace }), { timeout: 30_000 });
  await installPlants();
});

/** Installs a custom resource with subresources. Its schema has three status fields. */
async function installPlants(): Promise<void> {
  const text = { type: "string" };
  const number = { type: "integer" };
  const properties = {
    spec: { type: "object", properties: { replicas: number } },
    status: { type: "object", properties: { phase: text, message: text, replicas: number } },
  };
  const scale = { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" };
  const version = {
    name: "v1",
    served: true,
    storage: true,
    schema: { openAPIV3Schema: { type: "object", properties } },
    subresources: { status: {}, scale },
  };
  await client.resource(coreResources.crds).create({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `plants.${group}` },
    spec: { group, scope: "Namespaced", names: { plural: "plants", kind: "Plant" }, versions: [version] },
  });
  const served = () =>
    client
      .resource(plantsRef)
      .list()
      .then(Boolean, () => false);
  await vi.waitUntil(served, { timeout: 30_000 });
}

afterAll(async () => {
  await client.close();
  await plane.stop();
});

const configMap = (name: string, data: Record<string, string> = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace },
  data,
});

const pod = (name: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace },
  spec: { automountServiceAccountToken: false, containers: [{ name: "main", image: "none" }] },
});

async function errorOf(promise: Promise<unknown>): Promise<RametError> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof RametError) return error;
  throw new Error("the call did not fail");
}

describe("KubeClient on a real API server", () => {
  it("reports rejected requests with codes and the server's messages", async () => {
    const maps = client.resource(coreResources.configMaps);
    expect(await errorOf(maps.get({ name: "none" }))).toMatchObject({ code: "NotFound", retryable: false });
    const unknown = { ...coreResources.configMaps, group: "nowhere.dev", plural: "things" };
    expect(await errorOf(client.resource(unknown).list())).toMatchObject({ code: "NotFound" });
    await maps.create(configMap("twice"));
    expect(await errorOf(maps.create(configMap("twice")))).toMatchObject({ code: "AlreadyExists" });
    const illegal = await errorOf(
      client.resource(coreResources.pods).create({ ...pod("bad"), spec: { containers: [] } }),
    );
    expect(illegal).toMatchObject({ code: "InvalidArgument" });
    expect(illegal.message).toContain("spec.containers");
    const stale = await maps.get({ name: "twice" });
    await maps.mergePatch({ name: "twice" }, { data: { x: "1" } });
    expect(await errorOf(maps.update({ ...configMap("twice"), metadata: stale.metadata }))).toMatchObject({
      code: "Conflict",
    });
    const other = await errorOf(maps.delete({ name: "twice" }, { uid: "00000000-0000-0000-0000-000000000000" }));
    expect(other).toMatchObject({ code: "Conflict" });
    expect(await maps.delete({ name: "twice" }, { uid: stale.metadata.uid })).toBe(true);
    expect(await maps.delete({ name: "twice" })).toBe(false);
  });

  it("applies fields as one field manager, and reports the manager of a conflicting field", async () => {
    const maps = client.resource(coreResources.configMaps);
    await new Applier("one").apply(maps, configMap("applied", { a: "1", b: "1" }));
    const refused = await errorOf(new Applier("two").apply(maps, configMap("applied", { a: "2" })));
    expect(refused.code).toBe("Conflict");
    expect(refused.message).toMatch(/"one".*\.data\.a/s);
    await new Applier("two").apply(maps, configMap("applied", { a: "2" }), { force: true });
    expect(await new Applier("one").apply(maps, configMap("applied", {}))).toMatchObject({ data: { a: "2" } });
    expect(await maps.get({ name: "applied" })).not.toHaveProperty("data.b");
  });

  it("removes one finalizer with a JSON patch test", async () => {
    const maps = client.resource(coreResources.configMaps);
    const metadata = { name: "finalized", namespace, finalizers: ["ramet.dev/one", "ramet.dev/two"] };
    await maps.create({ ...configMap("finalized"), metadata });
    const remove = (value: string) => [
      { op: "test" as const, path: "/metadata/finalizers/0", value },
      { op: "remove" as const, path: "/metadata/finalizers/0" },
    ];
    expect(await errorOf(maps.jsonPatch({ name: "finalized" }, remove("ramet.dev/two")))).toMatchObject({
      code: "InvalidArgument",
    });
    expect((await maps.jsonPatch({ name: "finalized" }, remove("ramet.dev/one"))).metadata.finalizers).toEqual([
      "ramet.dev/two",
    ]);
    await maps.jsonPatch({ name: "finalized" }, remove("ramet.dev/two"));
    await maps.delete({ name: "finalized" });
  });

  it("reads and writes the subresources scale and binding", async () => {
    const plants = client.resource(plantsRef);
    await plants.create(plant("scaled", { replicas: 2 }));
    expect(await plants.getSubresource({ name: "scaled" }, "scale")).toMatchObject({ spec: { replicas: 2 } });
    await plants.mergePatch({ name: "scaled" }, { spec: { replicas: 5 } }, { subresource: "scale" });
    expect(await plants.get({ name: "scaled" })).toMatchObject({ spec: { replicas: 5 } });

    const pods = client.resource(coreResources.pods);
    await pods.create(pod("bound"));
    const target = { apiVersion: "v1", kind: "Node", name: "here" };
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { name: "bound", namespace }, target };
    await pods.postSubresource({ name: "bound" }, "binding", binding);
    expect(await pods.get({ name: "bound" })).toMatchObject({ spec: { nodeName: "here" } });
  });
});

describe("impersonation on a real API server", () => {
  it("makes requests as the user that the kubeconfig names", async () => {
    const path = join(plane.dir, "impersonating-kubeconfig");
    const config = parseYaml(await readFile(plane.kubeconfigPath, "utf8")) as { users: { user: object }[] };
    Object.assign(config.users[0]!.user, {
      as: "jane (déjà vu)",
      "as-uid": "1234",
      "as-groups": ["developers", "operators"],
      "as-user-extra": { "Example.com/Team (A)": ["blue", "green"] },
    });
    await writeFile(path, stringifyYaml(config), { mode: 0o600 });
    const jane = new KubeClient(await connectionFromKubeconfig({ path }));
    try {
      const reviews = { group: "authentication.k8s.io", version: "v1", plural: "selfsubjectreviews" };
      const review = await jane.request({
        verb: "create",
        resource: { ...reviews, kind: "SelfSubjectReview", namespaced: false },
        at: {},
        body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
        repeatable: true,
      });
      expect(review).toMatchObject({
        status: {
          userInfo: {
            username: "jane (déjà vu)",
            uid: "1234",
            groups: ["developers", "operators", "system:authenticated"],
            extra: { "example.com/team (a)": ["blue", "green"] },
          },
        },
      });
      const forbidden = await errorOf(jane.resource(coreResources.configMaps).list({ namespace }));
      expect(forbidden).toMatchObject({ code: "Forbidden", message: expect.stringContaining("jane") as string });
    } finally {
      await jane.close();
    }
  });
});

describe("StatusWriter on a real API server", () => {
  it("writes once, and never to another object of the same name", async () => {
    const pods = client.resource(coreResources.pods, (value) => value as WithStatus);
    const first = await pods.create(pod("status"));
    const writer = new StatusWriter(pods);
    requests = [];
    const written = await writer.write(first, { phase: "Running" });
    expect(written.status).toMatchObject({ phase: "Running" });
    await writer.write(first, { phase: "Running" });
    await writer.write(await pods.get({ name: "status" }), { phase: "Running" });
    expect(requests.filter(({ verb }) => verb === "patch")).toHaveLength(1);

    await pods.delete({ name: "status" }, { gracePeriodSeconds: 0 });
    await pods.create(pod("status"));
    expect(await errorOf(writer.write(first, { phase: "Failed" }))).toMatchObject({ code: "Conflict" });
    expect((await pods.get({ name: "status" })).status).toMatchObject({ phase: "Pending" });
  });
});

describe("StatusWriter on a custom resource", () => {
  it("converges though the server drops a field, and never writes to another object of the same name", async () => {
    const plants = client.resource(plantsRef, (value) => value as WithStatus);
    const first = await plants.create(plant("p"));
    const writer = new StatusWriter(plants);
    requests = [];
    await writer.write(first, { phase: "Growing", message: "It grows." });
    await writer.write(await plants.get({ name: "p" }), { phase: "Growing", message: "It grows." });
    expect(requests.filter(({ verb }) => verb === "patch")).toHaveLength(1);
    const changed = await writer.write(await plants.get({ name: "p" }), { phase: "Grown" });
    expect(changed.status).toEqual({ phase: "Grown" });

    await plants.delete({ name: "p" });
    await plants.create(plant("p"));
    expect(await errorOf(writer.write(first, { phase: "Dead" }))).toMatchObject({ code: "Conflict" });
    expect(await plants.get({ name: "p" })).not.toHaveProperty("status");
  });

  it("writes nothing late, from an object that another writer has continued from", async () => {
    const plants = client.resource(plantsRef, (value) => value as WithStatus);
    const seen = await plants.create(plant("late"));
    const [early, late] = [new StatusWriter(plants), new StatusWriter(plants)];
    const begun = await early.write(seen, { phase: "Growing", message: "It grows." });
    expect(await errorOf(late.write(seen, { phase: "Dead" }))).toMatchObject({ code: "Conflict" });
    // A message decides nothing.
    await early.write(begun, { phase: "Growing", message: "It still grows." });
    await late.write(begun, { phase: "Grown", message: "It grows." });
    const conflict = await errorOf(early.write(begun, { phase: "Dead" }));
    expect(conflict).toMatchObject({ code: "Conflict" });
    expect(String(conflict)).toContain("its phase or its Pod was changed");
    expect((await plants.get({ name: "late" })).status).toEqual({ phase: "Grown", message: "It still grows." });
  });

  it("writes nothing if a label on which the status depends was changed", async () => {
    const plants = client.resource(plantsRef, (value) => value as WithStatus);
    const label = "test.ramet.dev/owned";
    const free = { ...plant("q"), metadata: { ...plant("q").metadata, labels: { [label]: "false" } } };
    const seen = await plants.create(free);
    await plants.mergePatch({ name: "q" }, { metadata: { annotations: { other: "change" } } });
    const writer = new StatusWriter(plants);
    const options = { unlessChanged: [label, "test.ramet.dev/missing"] };
    expect((await writer.write(seen, { phase: "Growing" }, options)).status).toEqual({ phase: "Growing" });
    await plants.mergePatch({ name: "q" }, { metadata: { labels: { [label]: "true" } } });
    const conflict = await errorOf(writer.write(seen, { phase: "Dead" }, options));
    expect(conflict).toMatchObject({ code: "Conflict" });
    expect(String(conflict)).toContain(`its label ${label} was changed`);
    expect((await plants.get({ name: "q" })).status).toEqual({ phase: "Growing" });
  });
});

describe("Informer on a real API server", () => {
  it("follows changes, reports a quick delete and create as two changes, and survives a killed server", async () => {
    const maps = client.resource(coreResources.configMaps);
    const stop = new AbortController();
    const informer = new Informer({
      resource: maps,
      namespaces: [namespace],
      labelSelector: "followed=yes",
      timings: { backoff: { baseMilliseconds: 50, maxMilliseconds: 500 } },
    });
    const seen: string[] = [];
    informer.onChange(({ type, object }) => seen.push(`${type} ${object.metadata.name}`));
    const running = informer.run(stop.signal);
    await informer.synced();
    const followed = (name: string) => ({
      ...configMap(name),
      metadata: { name, namespace, labels: { followed: "yes" } },
    });

    await maps.create(followed("f"));
    await maps.delete({ name: "f" });
    await maps.create(followed("f"));
    await eventually(() => seen).toEqual(["added f", "deleted f", "added f"]);
    await maps.mergePatch({ name: "f" }, { metadata: { labels: { followed: "no" } } });
    await maps.mergePatch({ name: "f" }, { metadata: { labels: { followed: "yes" } } });
    await eventually(() => seen.slice(3)).toEqual(["deleted f", "added f"]);
    expect(informer.store.get("default/f")?.metadata).not.toHaveProperty("managedFields");

    await plane.killApiServer();
    await plane.restartApiServer();
    await maps.create(followed("g"));
    await expect.poll(() => informer.store.get("default/g"), { timeout: 30_000 }).toBeDefined();
    stop.abort();
    await running;
  });

  it("gets an Expired error for a resource version that is too old", async () => {
    const maps = client.resource(coreResources.configMaps);
    // A restarted server does not have the events from before its start.
    const old = await client.resource(coreResources.namespaces).get({ name: namespace });
    await plane.restartApiServer();
    await eventually(() => maps.list()).toBeDefined();
    const watch = maps.watch({
      resourceVersion: old.metadata.resourceVersion,
      timeoutSeconds: 30,
      stallMilliseconds: 60_000,
      signal: new AbortController().signal,
    });
    const error = await errorOf(watch.next());
    expect(isExpired(error)).toBe(true);
  });
});

describe("a controller on a real API server", () => {
  it("reconciles each object with one write, and does not write again because of its own write", async () => {
    const maps = client.resource(coreResources.configMaps);
    const stop = new AbortController();
    const informer = new Informer({ resource: maps, namespaces: [namespace], labelSelector: "echoed" });
    const running = informer.run(stop.signal);
    const applier = new Applier("echo");
    const controller = runController(
      {
        name: "echo",
        clock: systemClock,
        watches: [watching(informer)],
        reconcile: async (key, signal) => {
          const source = informer.store.get(key);
          if (source === undefined) return;
          const { name } = source.metadata;
          await applier.apply(maps, configMap(`${name}-echo`, { of: name }), { signal });
        },
      },
      stop.signal,
    );
    await informer.synced();
    requests = [];
    const names = Array.from({ length: 20 }, (_, i) => `w${i}`);
    await Promise.all(
      names.map((name) => maps.create({ ...configMap(name), metadata: { name, namespace, labels: { echoed: "" } } })),
    );
    await eventually(
      async () =>
        (await maps.list({ namespace })).items.filter(({ metadata }) => metadata.name.endsWith("-echo")).length,
    ).toBe(20);
    // The list may show a write before its response arrives.
    await eventually(() => requests.filter(({ verb }) => verb === "patch").length).toBe(20);
    stop.abort();
    await Promise.all([running, controller]);
  });
});

describe("leases and Events on a real API server", () => {
  it("lets one of two candidates lead, and the other one as soon as the first stops", async () => {
    const log: string[] = [];
    const candidate = (identity: string) => {
      const stop = new AbortController();
      const ended = runWhileLeading(
        { client, namespace, name: "test", identity, leaseSeconds: 60, renewDeadlineSeconds: 40, retrySeconds: 0.2 },
        async (signal) => {
          log.push(`${identity} leads`);
          await delay(systemClock, 60_000, signal).catch(() => undefined);
        },
        stop.signal,
      );
      return async () => {
        stop.abort();
        await ended;
      };
    };
    const stopA = candidate("a");
    await eventually(() => log).toEqual(["a leads"]);
    const stopB = candidate("b");
    const leases = client.resource(coreResources.leases);
    const first = await leases.get({ name: "test" });
    await eventually(async () => (await leases.get({ name: "test" })).metadata.resourceVersion).not.toBe(
      first.metadata.resourceVersion,
    );
    await stopA();
    await eventually(() => log).toEqual(["a leads", "b leads"]);
    await stopB();
    expect(await leases.get({ name: "test" })).toMatchObject({ spec: { holderIdentity: "" } });
  });

  it("records Events and their series", async () => {
    const log: string[] = [];
    const warn = (fields: object, message: string) => log.push(`${message} ${JSON.stringify(fields)}`);
    const ignore = () => undefined;
    let jump = 0;
    const clock = { ...systemClock, monotonicMilliseconds: () => systemClock.monotonicMilliseconds() + jump };
    const jumping = new KubeClient(await connectionFromKubeconfig({ path: plane.kubeconfigPath }), { clock });
    const recorder = new EventRecorder({
      client: jumping,
      reportingController: "ramet.dev/test",
      reportingInstance: "me",
      log: { debug: ignore, info: ignore, error: ignore, warn },
    });
    const regarding = await client.resource(coreResources.configMaps).create(configMap("eventful"));
    const transition = { type: "Normal" as const, reason: "Made", action: "Make", note: "It is there." };
    recorder.record(regarding, transition);
    await recorder.flush();
    jump = 61_000;
    recorder.record(regarding, transition);
    await recorder.flush();
    expect(log).toEqual([]);
    const { items } = await client.resource(coreResources.events).list({ namespace });
    const mine = items.filter(({ metadata }) => metadata.name.startsWith("eventful."));
    expect(mine).toMatchObject([{ reason: "Made", regarding: { name: "eventful" }, series: { count: 2 } }]);
    await jumping.close();
  });
});
