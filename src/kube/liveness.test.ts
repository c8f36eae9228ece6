import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { RametError } from "../base/errors.ts";
import { explicitConnection } from "./connection.ts";
import { runController } from "./controller.ts";
import { Informer } from "./informer.ts";
import { KubeClient } from "./kube-client.ts";
import { Liveness, stoppedMilliseconds } from "./liveness.ts";
import type { KubeObject } from "./object.ts";
import type { ResourceClient } from "./resource-client.ts";
import { coreResources } from "./resource-ref.ts";
import type { WatchEvent } from "./watch.ts";

const minute = 60_000;
const never = new Promise<never>(() => undefined);

let clock: ManualClock;
let liveness: Liveness;
let stop: AbortController;

beforeEach(() => {
  clock = new ManualClock();
  liveness = new Liveness(clock);
  stop = new AbortController();
});

afterEach(() => {
  stop.abort();
});

/** Advances the clock minute by minute, and runs all pending callbacks after each minute. */
async function pass(milliseconds: number, eachMinute: () => void = () => undefined): Promise<void> {
  for (let left = milliseconds; left > 0; left -= minute) {
    eachMinute();
    clock.advance(Math.min(minute, left));
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("Liveness of an informer", () => {
  type Methods = Partial<Pick<ResourceClient<KubeObject>, "listRaw" | "watch">>;

  /** An informer of Pods whose requests are replaced. */
  function follow(methods: Methods): void {
    const client = new KubeClient(explicitConnection({ server: "http://127.0.0.1:1" }), { clock, random: () => 0 });
    const empty = { items: [], resourceVersion: "1" };
    const resource = client.resource(coreResources.pods);
    Object.assign(resource, { listRaw: () => Promise.resolve(empty), ...methods });
    void new Informer({ resource }).run(stop.signal, liveness);
  }

  const stuck = [expect.stringContaining("The informer of pods has made no progress")];

  it("fails when a watch neither brings an event nor ends", async () => {
    follow({
      async *watch(): AsyncGenerator<WatchEvent<unknown>> {
        yield await never;
      },
    });
    await pass(stoppedMilliseconds);
    expect(liveness.problems()).toEqual([]);
    await pass(2 * minute);
    expect(liveness.problems()).toEqual(stuck);
  });

  it("fails when a list does not end", async () => {
    follow({ listRaw: () => never });
    await pass(stoppedMilliseconds + 2 * minute);
    expect(liveness.problems()).toEqual(stuck);
  });

  it("passes while bookmarks arrive", async () => {
    let send: () => void = () => undefined;
    follow({
      async *watch(): AsyncGenerator<WatchEvent<unknown>> {
        for (;;) {
          await new Promise<void>((resolve) => (send = resolve));
          yield { type: "BOOKMARK", resourceVersion: "2" };
        }
      },
    });
    for (let hour = 0; hour < 3; hour++) {
      await pass(60 * minute, () => {
        send();
      });
      expect(liveness.problems()).toEqual([]);
    }
  });

  it("passes while the API server is unreachable, because a restart does not help", async () => {
    let attempts = 0;
    follow({
      listRaw: () => {
        attempts++;
        return Promise.reject(new RametError("Unavailable", "list pods failed: ECONNREFUSED", { retryable: true }));
      },
    });
    await pass(180 * minute);
    expect(liveness.problems()).toEqual([]);
    expect(attempts).toBeGreaterThan(100);
  });

  it("passes once the informer has stopped", async () => {
    follow({
      listRaw: (options) =>
        new Promise((_, reject) => {
          options?.signal?.addEventListener("abort", () => {
            reject(new Error("aborted"));
          });
        }),
    });
    stop.abort();
    await pass(2 * stoppedMilliseconds);
    expect(liveness.problems()).toEqual([]);
  });
});

describe("Liveness of a controller", () => {
  let add: (key: string) => void;

  function control(reconcile: (key: string) => Promise<void>): void {
    const options = { name: "test", watches: [], clock, concurrency: 1, reconcile, liveness };
    void runController(options, stop.signal, (enqueue) => {
      add = enqueue;
    });
  }

  it("fails when a reconcile does not end, and also when keys wait for its worker", async () => {
    control(() => never);
    await pass(2 * stoppedMilliseconds);
    expect(liveness.problems()).toEqual([]);
    add("a");
    await pass(stoppedMilliseconds);
    expect(liveness.problems()).toEqual([]);
    await pass(minute);
    expect(liveness.problems()).toEqual(["A reconcile of the controller test has not ended for 21 minutes"]);
    add("b");
    await pass(stoppedMilliseconds + minute);
    expect(liveness.problems()).toContain(
      "No worker of the controller test has taken a key of its queue for 21 minutes",
    );
  });

  it("passes while a long queue is processed and while reconciles fail", async () => {
    let release: () => void = () => undefined;
    control(async (key) => {
      await new Promise<void>((resolve) => (release = resolve));
      if (key.endsWith("7")) throw new Error("failed");
    });
    await pass(minute);
    for (let number = 0; number < 100; number++) add(`key-${number}`);
    await pass(180 * minute, () => {
      release();
    });
    expect(liveness.problems()).toEqual([]);
  });
});
