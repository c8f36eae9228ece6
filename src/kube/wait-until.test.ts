import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import { systemClock, type Clock } from "../base/clock.ts";
import { explicitConnection } from "./connection.ts";
import { KubeClient } from "./kube-client.ts";
import type { KubeObject } from "./object.ts";
import { coreResources } from "./resource-ref.ts";
import { waitUntil, type WaitOptions } from "./wait-until.ts";

/** Shortens the pauses between attempts, but not the time that a watch may be silent. */
const hasty = {
  ...systemClock,
  schedule: (milliseconds: number, run: () => void) =>
    systemClock.schedule(milliseconds < 60_000 ? 1 : milliseconds, run),
};

describe("waitUntil", () => {
  let server: StandInServer;
  let requests = 0;
  let client: KubeClient;

  beforeEach(async () => {
    server = new StandInServer(coreResources.configMaps);
    await server.start();
    client = clientWith(hasty);
  });
  afterEach(async () => {
    await client.close();
    await server.stop();
  });

  function clientWith(clock: Clock): KubeClient {
    return new KubeClient(explicitConnection({ server: server.url }), { clock, onRequest: () => requests++ });
  }

  async function stoppedClock(): Promise<ManualClock> {
    await client.close();
    const clock = new ManualClock();
    client = clientWith(clock);
    return clock;
  }

  type Request = Pick<WaitOptions<KubeObject>, "from" | "until"> & Partial<WaitOptions<KubeObject>>;

  /** Starts to wait, and resolves once the server has a watcher. */
  async function waiting(request: Request) {
    const result = waitUntil({
      resource: client.resource(coreResources.configMaps),
      timeoutMilliseconds: Infinity,
      ...request,
    });
    // The test awaits the result later; until then a rejection must not count as unhandled.
    result.catch(() => undefined);
    await eventually(() => server.watchers).toBe(1);
    return { result };
  }

  const hasData = (object: KubeObject | undefined): boolean => object !== undefined && "data" in object;
  const isGone = (object: KubeObject | undefined): boolean => object === undefined;

  it("returns the given object without a request if it already matches", async () => {
    const from = server.put("a");
    const before = requests;
    const resource = client.resource(coreResources.configMaps);
    expect(await waitUntil({ resource, from, until: () => true, timeoutMilliseconds: Infinity })).toBe(from);
    expect(requests).toBe(before);
  });

  it("reports each state once, including the first and the last", async () => {
    const from = server.put("a");
    const seen: unknown[] = [];
    const onState = (object: KubeObject | undefined) => seen.push(object && "data" in object ? object.data : "none");
    const { result } = await waiting({
      from,
      onState,
      until: (object) => JSON.stringify(object).includes("two"),
    });
    server.put("a", { data: "one" });
    server.bookmark();
    server.put("a", { data: "two" });
    expect(await result).toMatchObject({ data: "two" });
    expect(seen).toEqual(["none", "one", "two"]);
  });

  it("resolves when the object is deleted", async () => {
    const { result } = await waiting({ from: server.put("a"), until: isGone });
    server.remove("a");
    expect(await result).toBeUndefined();
  });

  it("treats a recreated object of the same name as a deletion, also when it was recreated between watches", async () => {
    const { result } = await waiting({ from: server.put("a"), until: isGone });
    server.withoutEvents(() => {
      server.remove("a");
      server.put("a");
    });
    server.endWatches();
    expect(await result).toBeUndefined();
  });

  it("rejects with NotFound when the object is deleted before it matches", async () => {
    const { result } = await waiting({ from: server.put("a"), until: hasData });
    server.remove("a");
    await expect(result).rejects.toMatchObject({ code: "NotFound" });
  });

  it("continues after a truncated line and an expired version, with the changes made in between", async () => {
    const { result } = await waiting({ from: server.put("a"), until: hasData });
    server.breakWatches();
    await eventually(() => server.watchers).toBe(1);
    server.withoutEvents(() => server.put("a", { data: { x: "1" } }));
    server.expire();
    expect(await result).toMatchObject({ data: { x: "1" } });
  });

  it("continues after an outage that is longer than the retries of a request", async () => {
    const { result } = await waiting({ from: server.put("a"), until: hasData });
    await server.stop();
    const before = requests;
    await eventually(() => requests - before).toBeGreaterThan(20);
    await server.start();
    server.put("a", { data: { x: "1" } });
    expect(await result).toMatchObject({ data: { x: "1" } });
  });

  it("continues after one rejected request, as from a starting server", async () => {
    server.refuse({ times: 1, httpStatus: 403, message: "not yet authorized" });
    const { result } = await waiting({ from: server.put("a"), until: hasData });
    server.put("a", { data: { x: "1" } });
    expect(await result).toMatchObject({ data: { x: "1" } });
  });

  it("rejects when the same request is rejected twice in a row", async () => {
    const from = server.put("a");
    server.refuse({ when: ({ verb }) => verb === "watch", times: 2, httpStatus: 403, message: "not authorized" });
    const resource = client.resource(coreResources.configMaps);
    const result = waitUntil({ resource, from, until: () => false, timeoutMilliseconds: Infinity });
    await expect(result).rejects.toMatchObject({ code: "Forbidden" });
  });

  it("reads the object again after the requeue interval, even without an event", async () => {
    const clock = await stoppedClock();
    const { result } = await waiting({ from: server.put("a"), until: hasData, requeueAfterMilliseconds: 20_000 });
    server.withoutEvents(() => server.put("a", { data: { x: "1" } }));
    clock.advance(19_999);
    expect(server.count("get")).toBe(0);
    clock.advance(1);
    expect(await result).toMatchObject({ data: { x: "1" } });
  });

  it("rejects when the timeout has passed, and not before", async () => {
    const clock = await stoppedClock();
    let states = 0;
    const { result } = await waiting({
      from: server.put("a"),
      until: () => false,
      timeoutMilliseconds: 60_000,
      onState: () => states++,
    });
    clock.advance(59_999);
    server.put("a");
    await eventually(() => states).toBe(2);
    clock.advance(1);
    await expect(result).rejects.toMatchObject({ code: "Timeout" });
    await eventually(() => server.watchers).toBe(0);
  });

  it("rejects when aborted and closes its watch", async () => {
    const stop = new AbortController();
    const { result } = await waiting({ from: server.put("a"), until: () => false, signal: stop.signal });
    stop.abort();
    await expect(result).rejects.toMatchObject({ code: "Canceled" });
    await eventually(() => server.watchers).toBe(0);
  });

  it("throws what `until` throws", async () => {
    const { result } = await waiting({
      from: server.put("a"),
      until: (object) => {
        if (hasData(object)) throw new Error("not like that");
        return false;
      },
    });
    server.put("a", { data: {} });
    await expect(result).rejects.toThrow("not like that");
  });
});
