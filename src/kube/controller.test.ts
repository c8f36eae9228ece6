import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import { RametError } from "../base/errors.ts";
import { explicitConnection } from "./connection.ts";
import { controllerKeys, ownKey, runController, watching, type ControllerOptions } from "./controller.ts";
import { Informer } from "./informer.ts";
import { KubeClient } from "./kube-client.ts";
import { coreResources } from "./resource-ref.ts";

let server: StandInServer;
let client: KubeClient;
let clock: ManualClock;
let stop: AbortController;
let running: Promise<void>[];

beforeEach(async () => {
  server = new StandInServer(coreResources.pods);
  await server.start();
  client = new KubeClient(explicitConnection({ server: server.url }));
  clock = new ManualClock();
  stop = new AbortController();
  running = [];
});

afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await client.close();
  await server.stop();
});

function start(reconcile: ControllerOptions["reconcile"], more: Partial<ControllerOptions> = {}) {
  const informer = new Informer({ resource: client.resource(coreResources.pods) });
  running.push(informer.run(stop.signal));
  const controller = runController(
    {
      name: "test",
      watches: [watching(informer)],
      clock,
      backoff: { baseMilliseconds: 100, maxMilliseconds: 1_000, jitter: 0 },
      reconcile,
      ...more,
    },
    stop.signal,
  );
  running.push(controller);
  return { informer, controller };
}

describe("runController", () => {
  it("reconciles existing, added and deleted objects", async () => {
    server.put("a");
    const keys: string[] = [];
    start((key) => {
      keys.push(key);
      return Promise.resolve();
    });
    await eventually(() => keys).toEqual(["default/a"]);
    server.put("b");
    await eventually(() => keys).toEqual(["default/a", "default/b"]);
    server.remove("a");
    await eventually(() => keys).toEqual(["default/a", "default/b", "default/a"]);
  });

  it("retries a failed key with increasing delays, and immediately when its object changes", async () => {
    server.put("a");
    let tries = 0;
    start(() => {
      tries++;
      return tries < 4
        ? Promise.reject(new RametError("Unavailable", "not yet", { retryable: true }))
        : Promise.resolve();
    });
    await eventually(() => clock.waits).toEqual([100]);
    clock.advance(100);
    await eventually(() => clock.waits).toEqual([200]);
    server.put("a", { changed: true });
    await eventually(() => tries).toBe(3);
    await eventually(() => clock.waits).toEqual([400]);
    clock.advance(400);
    await eventually(() => tries).toBe(4);
    expect(clock.waits).toEqual([]);
  });

  it("reconciles a key again after the requested pause", async () => {
    server.put("a");
    let tries = 0;
    const results: string[] = [];
    start(
      () => {
        tries++;
        return Promise.resolve(tries === 1 ? { requeueAfterMilliseconds: 3_600_000 } : undefined);
      },
      {
        metrics: {
          depth: () => undefined,
          waited: () => undefined,
          worked: () => undefined,
          retried: () => undefined,
          reconciled: (result) => results.push(result),
        },
      },
    );
    await eventually(() => clock.waits).toEqual([3_600_000]);
    clock.advance(3_600_000);
    await eventually(() => results).toEqual(["requeue", "success"]);
  });

  it("retries a key that failed at the requested time at the latest", async () => {
    server.put("a");
    let tries = 0;
    const failure = new RametError("Unavailable", "not yet", { retryable: true });
    start(() => Promise.resolve({ requeueAfterMilliseconds: 250, ...(++tries <= 3 && { failure }) }));
    for (const pause of [100, 200, 250]) {
      await eventually(() => clock.waits).toEqual([pause]);
      clock.advance(pause);
    }
    await eventually(() => tries).toBe(4);
  });

  it("skips changes that need no work", async () => {
    server.put("a");
    const keys: string[] = [];
    const informer = new Informer({ resource: client.resource(coreResources.pods) });
    running.push(informer.run(stop.signal));
    const isSatisfied = ({ metadata }: { metadata: { name: string } }) => metadata.name === "moot";
    start(
      (key) => {
        keys.push(key);
        return Promise.resolve();
      },
      { watches: [watching(informer, ownKey, isSatisfied)] },
    );
    await eventually(() => keys).toEqual(["default/a"]);
    server.put("moot");
    server.put("b");
    await eventually(() => keys).toEqual(["default/a", "default/b"]);
  });

  it("maps a Pod to the sandbox that controls it, before and after a change", async () => {
    const owner = (name: string, apiVersion = "agents.kruise.io/v1alpha1") => ({
      metadata: { ownerReferences: [{ apiVersion, kind: "Sandbox", name, uid: name, controller: true }] },
    });
    const pod = (name: string, apiVersion?: string) => ({
      ...owner(name, apiVersion),
      metadata: { name: "p", namespace: "x", uid: "1", resourceVersion: "1", ...owner(name, apiVersion).metadata },
    });
    const keys = controllerKeys("Sandbox", "agents.kruise.io");
    expect(keys(pod("s"))).toEqual(["x/s"]);
    expect(keys(pod("s", "other.io/v1"))).toEqual([]);
    expect(keys({ metadata: { name: "p", uid: "1", resourceVersion: "1" } })).toEqual([]);
    await Promise.resolve();
  });

  it("finishes a running reconcile on shutdown and starts no other", async () => {
    server.put("a");
    server.put("b");
    const started: string[] = [];
    const gate = Promise.withResolvers<undefined>();
    const { controller } = start(
      async (key) => {
        started.push(key);
        await gate.promise;
      },
      { concurrency: 1 },
    );
    await eventually(() => started).toHaveLength(1);
    stop.abort();
    let ended = false;
    void controller.then(() => (ended = true));
    await eventually(() => clock.waits).toEqual([1_500]);
    expect(ended).toBe(false);
    gate.resolve(undefined);
    await controller;
    expect(started).toHaveLength(1);
    expect(clock.waits).toEqual([]);
  });

  it("aborts a reconcile that still runs after the drain timeout", async () => {
    server.put("a");
    const started = Promise.withResolvers<undefined>();
    const { controller } = start(
      (_, signal) =>
        new Promise((_resolve, reject) => {
          started.resolve(undefined);
          signal.addEventListener("abort", () => {
            reject(new RametError("Canceled", "stopped"));
          });
        }),
    );
    await started.promise;
    stop.abort();
    clock.advance(1_500);
    await controller;
  });

  it("ends after the drain timeout even if a reconcile ignores the abort, because the lease may have another holder", async () => {
    server.put("a");
    const started = Promise.withResolvers<undefined>();
    const { controller } = start(() => {
      started.resolve(undefined);
      return new Promise(() => undefined);
    });
    await started.promise;
    stop.abort();
    clock.advance(1_500);
    await controller;
  });
});
