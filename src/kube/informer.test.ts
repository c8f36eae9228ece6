import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import { explicitConnection } from "./connection.ts";
import { Informer, type InformerOptions } from "./informer.ts";
import { KubeClient } from "./kube-client.ts";
import type { KubeObject } from "./object.ts";
import type { ReflectorTimings } from "./reflector.ts";
import { coreResources } from "./resource-ref.ts";

const timings: ReflectorTimings = {
  watchTimeoutSeconds: 300,
  stallMilliseconds: 60_000,
  relistMilliseconds: 600_000,
  backoff: { baseMilliseconds: 1, maxMilliseconds: 20 },
};

let server: StandInServer;
let client: KubeClient;
let stop: AbortController;
let running: Promise<void>[];

beforeEach(async () => {
  server = new StandInServer(coreResources.configMaps);
  await server.start();
  client = new KubeClient(explicitConnection({ server: server.url }), { random: () => 0 });
  stop = new AbortController();
  running = [];
});

afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await client.close();
  await server.stop();
});

async function follow(options: Partial<InformerOptions<KubeObject>> = {}) {
  const informer = new Informer({ resource: client.resource(coreResources.configMaps), timings, ...options });
  const seen: string[] = [];
  informer.onChange(({ type, object }) => seen.push(`${type} ${object.metadata.name}/${object.metadata.uid}`));
  running.push(informer.run(stop.signal));
  await informer.synced();
  await eventually(() => server.watchers).toBe(1);
  return { informer, seen, names: () => informer.store.list().map((object) => object.metadata.name) };
}

describe("Informer", () => {
  it("lists, then watches, and drops managedFields", async () => {
    server.put("a");
    const { informer, seen } = await follow();
    server.put("b", { data: { x: "1" } });
    server.put("b", { data: { x: "2" } });
    server.remove("a");
    await eventually(() => seen).toEqual(["added a/uid-1", "added b/uid-2", "updated b/uid-2", "deleted a/uid-1"]);
    expect(informer.store.get("default/b")).toMatchObject({ kind: "ConfigMap", data: { x: "2" } });
    expect(informer.store.get("default/b")?.metadata).not.toHaveProperty("managedFields");
  });

  it("reports existing objects to a listener that is added later", async () => {
    server.put("a");
    const { informer } = await follow();
    const late: string[] = [];
    informer.onChange(({ type, object }) => late.push(`${type} ${object.metadata.name}`));
    expect(late).toEqual(["added a"]);
  });

  it("lists again after a 410 in a watch and reports the changes that it missed", async () => {
    server.put("a");
    server.put("b");
    const { seen, names } = await follow();
    server.withoutEvents(() => {
      server.remove("a");
      server.put("c");
    });
    server.expire();
    await eventually(names).toEqual(["b", "c"]);
    expect(seen).toEqual(["added a/uid-1", "added b/uid-2", "deleted a/uid-1", "added c/uid-3"]);
  });

  it("lists again after a 410 in place of a watch", async () => {
    server.put("a");
    const { names } = await follow();
    server.withoutEvents(() => server.put("b"));
    server.refuse({ when: ({ verb }) => verb === "watch", times: 1, httpStatus: 410, reason: "Gone" });
    server.endWatches();
    await eventually(names).toEqual(["a", "b"]);
  });

  it("reports a deletion and an addition for an object that was recreated between watches", async () => {
    server.put("a");
    const { seen } = await follow();
    server.withoutEvents(() => {
      server.remove("a");
      server.put("a");
    });
    server.expire();
    await eventually(() => seen).toEqual(["added a/uid-1", "deleted a/uid-1", "added a/uid-2"]);
  });

  it("resumes at the same version after a truncated line", async () => {
    const { names } = await follow();
    server.put("a");
    await eventually(names).toEqual(["a"]);
    server.breakWatches();
    server.put("b");
    await eventually(names).toEqual(["a", "b"]);
    expect(server.count("list")).toBe(1);
  });

  it("resumes at the last bookmark after the server ended a watch", async () => {
    const { names } = await follow();
    server.put("a");
    server.bookmark();
    await eventually(names).toEqual(["a"]);
    server.endWatches();
    await eventually(() => server.count("watch")).toBe(2);
    const [first, second] = server.requests.filter(({ verb }) => verb === "watch").map(({ query }) => query);
    expect(first?.get("allowWatchBookmarks")).toBe("true");
    expect(second?.get("resourceVersion")).toBe("v2.");
    server.put("b");
    await eventually(names).toEqual(["a", "b"]);
  });

  it("replaces a watch whose connection is silent", async () => {
    const { names } = await follow({ timings: { ...timings, stallMilliseconds: 100 } });
    server.stallWatches();
    server.put("a");
    await eventually(names).toEqual(["a"]);
  });

  it("lists again periodically to find lost events", async () => {
    const { names } = await follow({ timings: { ...timings, relistMilliseconds: 40, stallMilliseconds: 100 } });
    server.withoutEvents(() => server.put("a"));
    await eventually(names).toEqual(["a"]);
  });

  it("ignores events that arrive twice or too late", async () => {
    const { seen, names } = await follow();
    const old = server.put("a");
    server.send("ADDED", old);
    server.send("MODIFIED", old);
    const last = server.remove("a");
    server.send("MODIFIED", old);
    server.send("DELETED", last);
    const fresh = server.put("a");
    server.send("DELETED", last);
    server.send("MODIFIED", old);
    server.send("ADDED", fresh);
    server.put("b");
    await eventually(names).toEqual(["a", "b"]);
    expect(seen).toEqual(["added a/uid-1", "deleted a/uid-1", "added a/uid-2", "added b/uid-3"]);
  });

  it("recovers from a 500 on the second page of the first list and from a list that expires between pages", async () => {
    for (let i = 0; i < 501; i++) server.put(`m${i}`);
    server.refuse({ when: ({ query }) => query.has("continue"), times: 7, httpStatus: 500 });
    server.refuse({ when: ({ query }) => query.has("continue"), times: 1, httpStatus: 410, reason: "Expired" });
    const hasty = { ...client.clock, schedule: (_: number, run: () => void) => client.clock.schedule(1, run) };
    const quick = new KubeClient(explicitConnection({ server: server.url }), { clock: hasty });
    const informer = new Informer({ resource: quick.resource(coreResources.configMaps), timings });
    running.push(informer.run(stop.signal));
    await informer.synced();
    expect(informer.store.size).toBe(501);
    stop.abort();
    await quick.close();
  });

  it("waits until a stopped server is back", async () => {
    server.put("a");
    const { names } = await follow();
    await server.stop();
    server.put("b");
    await server.start();
    await eventually(names).toEqual(["a", "b"]);
  });

  it("lists with a short delay when the server is back after a long outage without its old versions", async () => {
    const clock = new ManualClock();
    const patient = new KubeClient(explicitConnection({ server: server.url }), { clock, random: () => 0 });
    const backoff = { baseMilliseconds: 100, maxMilliseconds: 100_000 };
    const { names } = await follow({
      resource: patient.resource(coreResources.configMaps),
      timings: { ...timings, backoff },
    });
    await server.stop();
    for (const pause of [50, 100, 200, 400]) {
      await eventually(() => clock.waits).toEqual([pause]);
      if (pause === 400) await server.start();
      else clock.advance(pause);
    }
    server.put("a");
    server.expire();
    clock.advance(400);
    await eventually(() => clock.waits).toEqual([50]);
    clock.advance(50);
    await eventually(names).toEqual(["a"]);
    await patient.close();
  });

  it("is interrupted from a failure until a watch is open again, also if no event follows", async () => {
    const clock = new ManualClock();
    const patient = new KubeClient(explicitConnection({ server: server.url }), { clock, random: () => 0 });
    const backoff = { baseMilliseconds: 100, maxMilliseconds: 100 };
    const resource = patient.resource(coreResources.configMaps);
    const { informer } = await follow({ resource, timings: { ...timings, backoff } });
    expect(informer.isInterrupted).toBe(false);
    server.breakWatches();
    await eventually(() => clock.waits).toEqual([50]);
    expect(informer.isInterrupted).toBe(true);
    clock.advance(50);
    await eventually(() => informer.isInterrupted).toBe(false);
    expect(server.count("list")).toBe(1);
    stop.abort();
    await patient.close();
  });

  it("skips invalid objects and keeps the others", async () => {
    server.put("a");
    server.put("bad", { metadata: {} });
    const resource = client.resource(coreResources.configMaps, (value) => {
      const object = value as KubeObject;
      if (object.metadata.name === "bad") throw new Error("no");
      return object;
    });
    const { names } = await follow({ resource });
    server.put("c");
    await eventually(names).toEqual(["a", "c"]);
  });

  it("selects each of its namespaces in a request of its own, and is synced when all are listed", async () => {
    server.refuse({ when: ({ path }) => path.includes("/two/"), times: 3, httpStatus: 403 });
    const resource = client.resource(coreResources.configMaps);
    const informer = new Informer({ resource, timings, namespaces: ["one", "two"] });
    expect([informer.follows("one"), informer.follows("three")]).toEqual([true, false]);
    let isSynced = false;
    running.push(informer.run(stop.signal));
    const synced = informer.synced().then(() => (isSynced = true));
    await eventually(() => server.watchers).toBe(1);
    expect(isSynced).toBe(server.requests.some(({ path, verb }) => verb === "watch" && path.includes("/two/")));
    await synced;
    await eventually(() => server.watchers).toBe(2);
    const listed = server.requests.filter(({ verb }) => verb === "list").map(({ path }) => path);
    expect(new Set(listed)).toEqual(
      new Set(["/api/v1/namespaces/one/configmaps", "/api/v1/namespaces/two/configmaps"]),
    );
  });

  it("is synced only after the first list, and stops waiting when aborted", async () => {
    server.refuse({ times: 100, httpStatus: 403 });
    const informer = new Informer({ resource: client.resource(coreResources.configMaps), timings });
    running.push(informer.run(stop.signal));
    const wait = new AbortController();
    let isSynced = false;
    const synced = informer.synced(wait.signal).then(() => {
      isSynced = true;
    });
    await eventually(() => server.count("list")).toBeGreaterThan(2);
    expect(isSynced).toBe(false);
    wait.abort();
    await expect(synced).rejects.toMatchObject({ code: "Canceled" });
  });
});
