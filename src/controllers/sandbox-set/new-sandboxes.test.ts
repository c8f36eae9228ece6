import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Clock } from "../../base/clock.ts";
import { ObjectStore } from "../../kube/store.ts";
import { NewSandboxes } from "./new-sandboxes.ts";

/** A cluster whose cache shows changes late. */
class LateCache {
  readonly store = new ObjectStore<Sandbox>((error) => {
    throw error;
  });
  readonly existing: Sandbox[] = [];
  milliseconds = 0;
  readonly clock: Clock = {
    now: () => new Date(this.milliseconds),
    monotonicMilliseconds: () => this.milliseconds,
    schedule: () => () => undefined,
  };
  readonly made = new NewSandboxes({ store: this.store }, this.clock);

  create(name: string, response: "received" | "lost" | "rejected"): void {
    this.made.requested("set", { namespace: "n", name, revisionHash: "a" });
    if (response === "rejected") {
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
    this.existing.push(sandbox);
    if (response === "received") this.made.created("set", sandbox);
  }

  show(count: number): void {
    for (const sandbox of this.existing.slice(this.store.size, this.store.size + count)) this.store.put(sandbox);
  }

  /** Looks overdue sandboxes up, as a reconcile does. */
  lookUpOverdue(): void {
    for (const { name } of this.made.overdue("set")) {
      const found = this.existing.find(({ metadata }) => metadata.name === name);
      if (found === undefined) this.made.removed("set", name);
      else this.made.created("set", found);
    }
  }

  get counted(): number {
    return this.store.size + this.made.of("set").length;
  }
}

describe("sandboxes that the cache does not show yet", () => {
  it("counts created sandboxes, so that a set never creates too many", () => {
    const step = fc.record({
      response: fc.constantFrom("received" as const, "lost" as const, "rejected" as const),
      shown: fc.nat({ max: 3 }),
      passed: fc.nat({ max: 4_000 }),
    });
    fc.assert(
      fc.property(fc.nat({ max: 10 }), fc.array(step, { maxLength: 60 }), (replicas, steps) => {
        const world = new LateCache();
        for (const [number, { response, shown, passed }] of steps.entries()) {
          world.milliseconds += passed;
          world.lookUpOverdue();
          if (world.counted < replicas) world.create(`s${number}`, response);
          world.show(shown);
          expect(world.existing.length).toBeLessThanOrEqual(replicas);
        }
        world.show(Number.POSITIVE_INFINITY);
        world.milliseconds += 6_000;
        world.lookUpOverdue();
        expect(world.counted).toBe(world.existing.length);
      }),
    );
  });

  it("counts a sandbox once if the cache shows it before the response arrives", () => {
    const world = new LateCache();
    world.create("a", "lost");
    world.show(1);
    world.made.created("set", world.existing[0]!);
    expect(world.made.of("set")).toEqual([]);
  });

  it("returns only overdue sandboxes, and forgets them with the set", () => {
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
  it("remembers deletions until the cache shows them, for at most five seconds", () => {
    const world = new LateCache();
    world.create("a", "received");
    world.made.deleting("uid-a");
    expect(world.made.isLeaving("uid-a")).toBe(false);
    world.show(1);
    world.made.deleting("uid-a");
    expect(world.made.isLeaving("uid-a")).toBe(true);
    world.store.remove(world.existing[0]!, true);
    expect(world.made.isLeaving("uid-a")).toBe(false);
    world.create("b", "received");
    world.show(2);
    world.store.put(world.existing[1]!);
    world.made.deleting("uid-b");
    world.milliseconds += 5_000;
    expect(world.made.isLeaving("uid-b")).toBe(false);
  });
});
