import fc from "fast-check";
import { expect, it } from "vitest";
import { FairTurns } from "./fair-turns.ts";

const never = new AbortController().signal;

it("serves a new namespace after at most one turn of each other namespace, however long their queues are", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom("busy", "busier"), { minLength: 1, maxLength: 30 }), async (before) => {
      const turns = new FairTurns(1);
      const order: string[] = [];
      const work = (namespace: string) =>
        turns.run(
          namespace,
          async () => {
            order.push(namespace);
            await Promise.resolve();
          },
          never,
        );
      await Promise.all([...before, "late"].map(work));
      // The first one starts immediately, and each of the other two namespaces has at most one turn before it.
      expect(order.indexOf("late")).toBeLessThanOrEqual(3);
      expect(order).toHaveLength(before.length + 1);
    }),
  );
});

it("runs everything and never exceeds its concurrency", async () => {
  const turns = new FairTurns(3);
  let running = 0;
  let most = 0;
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      turns
        .run(
          `n${at % 4}`,
          async () => {
            most = Math.max(most, ++running);
            await new Promise((resolve) => setImmediate(resolve));
            running--;
            if (at === 5) throw new Error("this one failed");
            return at;
          },
          never,
        )
        .catch(() => -1),
    ),
  );
  expect(most).toBe(3);
  expect(results.filter((at) => at >= 0)).toHaveLength(19);
});

it("removes an aborted caller from the queue", async () => {
  const turns = new FairTurns(1);
  const gate = Promise.withResolvers<undefined>();
  const first = turns.run("a", () => gate.promise, never);
  const giveUp = new AbortController();
  const second = turns.run("a", () => Promise.resolve("ran"), giveUp.signal);
  const third = turns.run("a", () => Promise.resolve("ran"), never);
  giveUp.abort();
  await expect(second).rejects.toMatchObject({ code: "Canceled" });
  gate.resolve(undefined);
  await first;
  await expect(third).resolves.toBe("ran");
});

it("never exceeds the limit of a namespace, which delays no other one, and starts more when it is raised", async () => {
  const limits: Record<string, number> = { a: 1, b: 2, none: 0 };
  const turns = new FairTurns(4, (namespace) => limits[namespace] ?? Infinity);
  const gate = Promise.withResolvers<undefined>();
  const began: string[] = [];
  const waited: string[] = [];
  const all = ["none", "a", "a", "a", "b", "b", "b", "c"].map((namespace) =>
    turns.run(
      namespace,
      () => {
        began.push(namespace);
        return gate.promise;
      },
      never,
      () => waited.push(namespace),
    ),
  );
  await new Promise((resolve) => setImmediate(resolve));
  expect(began).toEqual(["a", "b", "b", "c"]);
  expect(waited).toEqual(["none", "a", "a", "b"]);
  expect([turns.runningOf("a"), turns.runningOf("b"), turns.runningOf("none")]).toEqual([1, 2, 0]);
  gate.resolve(undefined);
  await Promise.all(all.slice(1));
  expect(began).not.toContain("none");
  limits["none"] = 1;
  turns.limitChanged();
  await all[0];
  expect(turns.runningOf("none")).toBe(0);
});
