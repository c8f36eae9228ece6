import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Clock } from "../../base/clock.ts";
import { ObjectStore } from "../../kube/store.ts";
import { NewSandboxes } from "./new-sandboxes.ts";

/** A cluster whose changes a cache shows late. */
class LateCache {
  readonly store = new ObjectStore<Sandbox>((error) => {
    throw error;
  });
  readonly there: Sandbox[] = [];
  milliseconds = 0;
  readonly clock: Clock = {
    now: () => new Date(this.milliseconds),
    monotonicMilliseconds: () => this.milliseconds,
    schedule: () => () => undefined,
  };
  readonly made = new NewSandboxes({ store: this.store }, this.clock);

  create(name: string, answer: "heard" | "lost" | "refused"): void {
    this.made.requested("set", { namespace: "n", name, revisionHash: "a" });
    if (answer === "refused") {
      this.made.removed("set", name);
      return;
    }
    const sandbox = Sandbox.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      spec: {},
      metadata: {
        name,
        namespace: "n",
        uid: `uid-${name}`,
        resourceVersion: "1",
        creationTimestamp: "2030-01-01T00:00:00Z",
      },
    });
    this.there.push(sandbox);
    if (answer === "heard") this.made.created("set", sandbox);
  }

  show(count: number): void {
    for (const sandbox of this.there.slice(this.store.size, this.store.size + count)) this.store.put(sandbox);
  }

  /** As a reconcile does with what is overdue. */
  ask(): void {
    for (const { name } of this.made.overdue("set")) {
      const found = this.there.find(({ metadata }) => metadata.name === name);
      if (found === undefined) this.made.removed("set", name);
      else this.made.created("set", found);
    }
  }

  get counted(): number {
    return this.store.size + this.made.of("set").length;
  }
}

describe("sandboxes that the cache does not show yet", () => {
  it("are counted, so that a set that fills itself never makes one too many", () => {
    const step = fc.record({
      answer: fc.constantFrom("heard" as const, "lost" as const, "refused" as const),
      shown: fc.nat({ max: 3 }),
      passed: fc.nat({ max: 4_000 }),
    });
    fc.assert(
      fc.property(fc.nat({ max: 10 }), fc.array(step, { maxLength: 60 }), (replicas, steps) => {
        const world = new LateCache();
        for (const [number, { answer, shown, passed }] of steps.entries()) {
          world.milliseconds += passed;
          world.ask();
          if (world.counted < replicas) world.create(`s${number}`, answer);
          world.show(shown);
          expect(world.there.length).toBeLessThanOrEqual(replicas);
        }
        world.show(Number.POSITIVE_INFINITY);
        world.milliseconds += 6_000;
        world.ask();
        expect(world.counted).toBe(world.there.length);
      }),
    );
  });

  it("are no longer counted when the cache was quicker than the answer", () => {
    const world = new LateCache();
    world.create("a", "lost");
    world.show(1);
    world.made.created("set", world.there[0]!);
    expect(world.made.of("set")).toEqual([]);
  });

  it("are asked for only when they are overdue, and forgotten with the set", () => {
    const world = new LateCache();
    world.create("a", "lost");
    world.milliseconds = 4_999;
    expect(world.made.overdue("set")).toEqual([]);
    world.milliseconds = 5_000;
    expect(world.made.overdue("set")).toHaveLength(1);
    world.made.forget("set");
    expect(world.made.of("set")).toEqual([]);
  });
});

describe("deletions that the cache does not show yet", () => {
  it("are remembered until they are shown, or for a while", () => {
    const world = new LateCache();
    world.create("a", "heard");
    world.made.deleting("uid-a");
    expect(world.made.isLeaving("uid-a")).toBe(false);
    world.show(1);
    world.made.deleting("uid-a");
    expect(world.made.isLeaving("uid-a")).toBe(true);
    world.store.remove(world.there[0]!, true);
    expect(world.made.isLeaving("uid-a")).toBe(false);
    world.create("b", "heard");
    world.show(2);
    world.store.put(world.there[1]!);
    world.made.deleting("uid-b");
    world.milliseconds += 5_000;
    expect(world.made.isLeaving("uid-b")).toBe(false);
  });
});
