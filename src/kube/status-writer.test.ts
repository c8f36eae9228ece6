import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import { Applier, covers } from "./apply.ts";
import { explicitConnection } from "./connection.ts";
import { EventRecorder, type Transition } from "./events.ts";
import { KubeClient } from "./kube-client.ts";
import type { ResourceClient } from "./resource-client.ts";
import { coreResources } from "./resource-ref.ts";
import { StatusWriter, type WithStatus } from "./status-writer.ts";

interface Pod extends WithStatus {
  status?: { phase?: string; podIP?: string | undefined; nested?: Record<string, string> } | undefined;
}

let server: StandInServer;
let client: KubeClient;
let clock: ManualClock;
let pods: ResourceClient<Pod>;

async function connect(resource: typeof coreResources.pods) {
  server = new StandInServer(resource);
  await server.start();
  clock = new ManualClock();
  client = new KubeClient(explicitConnection({ server: server.url }), { clock });
  pods = client.resource(coreResources.pods, (value) => value as Pod);
}

afterEach(async () => {
  await client.close();
  await server.stop();
});

describe("StatusWriter", () => {
  beforeEach(() => connect(coreResources.pods));

  it("writes the differences and the generation, and removes fields that are no longer set", async () => {
    server.put("a", { status: { phase: "Pending", podIP: "10.0.0.1", nested: { keep: "1", drop: "2" }, foreign: 1 } });
    const pod = await pods.get({ name: "a" });
    const written = await new StatusWriter(pods).write(pod, { phase: "Running", nested: { keep: "1" } });
    expect(written.status).toEqual({ phase: "Running", nested: { keep: "1" }, observedGeneration: 1 });
    expect(server.requests.at(-1)?.path).toBe("/api/v1/namespaces/default/pods/a/status");
    expect(server.get("a")?.["status"]).toEqual(written.status);
  });

  it("writes nothing when nothing changed, also while the cache lags behind its own write", async () => {
    server.put("a");
    const writer = new StatusWriter(pods);
    const cached = await pods.get({ name: "a" });
    for (let i = 0; i < 3; i++) await writer.write(cached, { phase: "Running", podIP: undefined });
    const fresh = await pods.get({ name: "a" });
    for (let i = 0; i < 3; i++) await writer.write(fresh, { phase: "Running" });
    expect(server.count("patch")).toBe(1);
    expect(writer.latest(cached).status?.phase).toBe("Running");
  });

  it("restores a field that another client changed", async () => {
    server.put("a");
    const writer = new StatusWriter(pods);
    await writer.write(await pods.get({ name: "a" }), { phase: "Running" });
    server.put("a", { status: { phase: "Failed" } });
    await writer.write(await pods.get({ name: "a" }), { phase: "Running" });
    expect(server.get("a")).toMatchObject({ status: { phase: "Running" } });
  });

  it("keeps what a write at the same time has added, also inside of an object, whichever of them ends first", async () => {
    server.put("a", { status: { phase: "Pending", nested: { keep: "1", drop: "2" } } });
    const cached = await pods.get({ name: "a" });
    const writer = new StatusWriter(pods);
    const add = () => writer.write(cached, { phase: "Pending", nested: { keep: "1", drop: "2", added: "3" } });
    const change = () => writer.write(cached, { phase: "Running", nested: { keep: "1" } });
    const both = { phase: "Running", nested: { keep: "1", added: "3" } };
    await Promise.all([add(), change()]);
    expect(server.get("a")).toMatchObject({ status: both });
    server.put("a", { status: { phase: "Pending", nested: { keep: "1", drop: "2" } } });
    const other = new StatusWriter(pods);
    const again = await pods.get({ name: "a" });
    await other.write(again, { phase: "Pending", nested: { keep: "1", drop: "2", added: "3" } });
    expect((await other.write(again, { phase: "Running", nested: { keep: "1" } })).status).toMatchObject(both);
    expect(server.get("a")).toHaveProperty("status", { ...both, observedGeneration: 1 });
  });

  it("fails when the object is deleted", async () => {
    server.put("a");
    const pod = await pods.get({ name: "a" });
    server.remove("a");
    await expect(new StatusWriter(pods).write(pod, { phase: "Running" })).rejects.toMatchObject({ code: "NotFound" });
    server.put("a");
    await expect(new StatusWriter(pods).write(pod, { phase: "Running" })).rejects.toMatchObject({ code: "Conflict" });
    expect(server.get("a")).not.toHaveProperty("status");
  });
});

describe("Applier", () => {
  beforeEach(() => connect(coreResources.pods));

  it("applies with its controller's field manager, and only differences", async () => {
    server.put("a", { spec: { nodeName: "n", defaulted: true } });
    const known = await pods.get({ name: "a" });
    const desired = { apiVersion: "v1", kind: "Pod", metadata: { name: "a" }, spec: { nodeName: "n" } };
    const applier = new Applier("ramet-test");
    expect(await applier.apply(pods, desired, { known })).toBe(known);
    expect(server.count("patch")).toBe(0);
    await applier.apply(pods, { ...desired, spec: { nodeName: "m" } }, { known });
    const sent = server.requests.at(-1);
    expect(sent?.headers["content-type"]).toBe("application/apply-patch+yaml");
    expect(Object.fromEntries(sent?.query ?? [])).toEqual({ fieldManager: "ramet-test", force: "false" });
  });

  it("compares lists by position and length", () => {
    expect(covers([{ a: 1, more: 2 }], [{ a: 1 }])).toBe(true);
    expect(covers([{ a: 1 }, { a: 2 }], [{ a: 1 }])).toBe(false);
    expect(covers({ a: null }, { a: {} })).toBe(false);
    expect(covers({}, { a: undefined })).toBe(true);
  });
});

describe("EventRecorder", () => {
  beforeEach(() => connect(coreResources.events));

  const transition: Transition = { type: "Normal", reason: "Cloned", action: "Clone", note: "It answers." };
  const regarding = {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "a", namespace: "default", uid: "1", resourceVersion: "v1" },
  };

  function newRecorder(log?: string[]) {
    const ignore = (): undefined => undefined;
    const warn = (_: object, message: string) => log?.push(message);
    return new EventRecorder({
      client,
      reportingController: "ramet.dev/test",
      reportingInstance: "me",
      log: { debug: ignore, info: ignore, error: ignore, warn },
    });
  }

  it("writes one Event for a transition, and counts repeats in a series", async () => {
    const recorder = newRecorder();
    for (let i = 0; i < 5; i++) recorder.record(regarding, transition);
    recorder.record(regarding, { ...transition, reason: "Paused" });
    await recorder.flush();
    expect(server.requests.map(({ verb }) => verb)).toEqual(["post", "post"]);
    expect(server.requests[0]?.body).toMatchObject({
      ...transition,
      eventTime: "2026-01-02T03:04:05.678000Z",
      regarding: { kind: "Sandbox", name: "a", uid: "1" },
      reportingController: "ramet.dev/test",
    });
    clock.advance(61_000);
    recorder.record(regarding, transition);
    await recorder.flush();
    expect(server.requests.at(-1)).toMatchObject({ verb: "patch", body: { series: { count: 6 } } });
  });

  it("starts a new series after ten minutes, and repeats no Event after a restart", async () => {
    newRecorder().record(regarding, transition);
    const again = newRecorder();
    again.record(regarding, transition);
    await again.flush();
    clock.advance(601_000);
    again.record(regarding, transition);
    await again.flush();
    expect(server.count("patch")).toBe(0);
  });

  it("drops an Event that cannot be written", async () => {
    const log: string[] = [];
    const recorder = newRecorder(log);
    server.refuse({ times: 1, httpStatus: 403 });
    recorder.record(regarding, transition);
    await recorder.flush();
    expect(log).toEqual(["failed to write an Event"]);
  });

  it("does not delay the end of the process while the server is unreachable", async () => {
    const recorder = newRecorder();
    server.refuse({ times: 100, httpStatus: 503, headers: { "retry-after": "5" } });
    recorder.record(regarding, transition);
    await eventually(() => clock.waits).toHaveLength(1);
    const flushed = recorder.flush();
    clock.advance(2_000);
    await flushed;
  });
});
