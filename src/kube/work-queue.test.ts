import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { WorkQueue, type QueueItem, type QueueMetrics } from "./work-queue.ts";

const backoff = { baseMilliseconds: 100, maxMilliseconds: 1_000, jitter: 0 };

function newQueue(metrics?: QueueMetrics) {
  const clock = new ManualClock();
  return { clock, queue: new WorkQueue({ clock, backoff, ...(metrics === undefined ? {} : { metrics }) }) };
}

/** Returns the next item if the queue has one now. */
async function poll(queue: WorkQueue): Promise<QueueItem | undefined> {
  return queue.depth === 0 ? undefined : queue.take();
}

describe("WorkQueue", () => {
  it("returns a key once, however often it was added", async () => {
    const { queue } = newQueue();
    for (let i = 0; i < 3; i++) queue.add("a");
    expect((await poll(queue))?.key).toBe("a");
    expect(await poll(queue)).toBeUndefined();
  });

  it("returns a key again that was added while a worker had it, once the worker is done", async () => {
    const { queue } = newQueue();
    queue.add("a");
    const first = await queue.take();
    queue.add("a");
    queue.add("a");
    expect(await poll(queue)).toBeUndefined();
    first?.done();
    expect((await poll(queue))?.key).toBe("a");
    expect(queue.depth).toBe(0);
  });

  it("drops only a request that earlier work has already satisfied", async () => {
    const { queue } = newQueue();
    const done = new Set<string>();
    const isDone = () => done.has("a");
    queue.add("a", isDone);
    const first = await queue.take();
    queue.add("a", isDone);
    done.add("a");
    first?.done();
    expect(queue.depth).toBe(0);
    queue.add("a", isDone);
    expect(queue.depth).toBe(0);
    queue.add("a");
    const second = await queue.take();
    queue.add("a", isDone);
    queue.add("a", () => false);
    second?.done();
    expect(queue.depth).toBe(1);
  });

  it("doubles the delay of a failing key, up to the maximum, until the key is forgotten", () => {
    const { queue } = newQueue();
    expect([1, 2, 3, 4, 5, 6].map(() => queue.retry("a"))).toEqual([100, 200, 400, 800, 1000, 1000]);
    expect(queue.retry("b")).toBe(100);
    queue.forget("a");
    expect(queue.retry("a")).toBe(100);
  });

  it("adds a key at the earliest of the requested times", () => {
    const { clock, queue } = newQueue();
    queue.addAfter("a", 500);
    queue.addAfter("a", 200);
    queue.addAfter("a", 900);
    clock.advance(199);
    expect(queue.depth).toBe(0);
    clock.advance(1);
    expect(queue.depth).toBe(1);
    expect(clock.waits).toEqual([]);
  });

  it("drops a delayed request when a worker gets the key earlier", async () => {
    const { clock, queue } = newQueue();
    queue.addAfter("a", 500);
    queue.add("a");
    (await queue.take())?.done();
    clock.advance(1_000);
    expect(queue.depth).toBe(0);
  });

  it("waits for the workers on shutdown and returns no more keys", async () => {
    const { clock, queue } = newQueue();
    queue.add("a");
    queue.add("b");
    const item = await queue.take();
    let drained = false;
    const shut = queue.shutDown().then(() => (drained = true));
    queue.add("c");
    queue.addAfter("d", 1);
    clock.advance(10);
    expect(await queue.take()).toBeUndefined();
    expect(drained).toBe(false);
    item?.done();
    await shut;
    expect(queue.depth).toBe(0);
    expect(clock.waits).toEqual([]);
  });

  it("wakes waiting workers on shutdown", async () => {
    const { queue } = newQueue();
    const takers = [queue.take(), queue.take()];
    await queue.shutDown();
    expect(await Promise.all(takers)).toEqual([undefined, undefined]);
  });

  it("reports its depth, waiting times, work durations and retries", async () => {
    const seen: string[] = [];
    const { clock, queue } = newQueue({
      depth: (n) => seen.push(`depth ${n}`),
      waited: (n) => seen.push(`waited ${n}`),
      worked: (n) => seen.push(`worked ${n}`),
      retried: () => seen.push("retried"),
    });
    queue.add("a");
    clock.advance(30);
    const item = await queue.take();
    clock.advance(7);
    queue.retry("a");
    item?.done();
    expect(seen).toEqual(["depth 1", "depth 0", "waited 30", "retried", "worked 7"]);
  });

  it("never loses a key and never returns one to two workers", async () => {
    const key = fc.constantFrom("a", "b", "c");
    const step = fc.oneof(
      fc.record({ do: fc.constant("add" as const), key }),
      fc.record({ do: fc.constant("later" as const), key, milliseconds: fc.integer({ min: 0, max: 50 }) }),
      fc.record({ do: fc.constant("retry" as const), key }),
      fc.record({ do: fc.constant("take" as const) }),
      fc.record({ do: fc.constant("done" as const), which: fc.nat(3) }),
      fc.record({ do: fc.constant("pass" as const), milliseconds: fc.integer({ min: 1, max: 60 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { clock, queue } = newQueue();
        const held: QueueItem[] = [];
        /** Keys that were added and not returned since. */
        const owed = new Set<string>();
        const take = async (): Promise<void> => {
          const item = await poll(queue);
          if (item === undefined) return;
          expect(held.map((other) => other.key)).not.toContain(item.key);
          owed.delete(item.key);
          held.push(item);
        };
        for (const now of steps) {
          if (now.do === "add") queue.add(now.key);
          if (now.do === "later") queue.addAfter(now.key, now.milliseconds);
          if (now.do === "retry") queue.retry(now.key);
          if ("key" in now) owed.add(now.key);
          if (now.do === "take") await take();
          if (now.do === "done") held.splice(now.which, 1)[0]?.done();
          if (now.do === "pass") clock.advance(now.milliseconds);
        }
        clock.advance(10_000);
        for (let round = 0; round < 3; round++) {
          for (const item of held.splice(0)) item.done();
          while (queue.depth > 0) await take();
        }
        expect([...owed]).toEqual([]);
        expect(clock.waits).toEqual([]);
      }),
    );
  });
});
