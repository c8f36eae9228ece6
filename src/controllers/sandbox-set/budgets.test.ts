import { expect, it } from "vitest";
import { planBudget } from "./budgets.ts";

it("keeps the ready sandboxes of a leaving node for a minute each, and forgets those whose node stays", () => {
  const first = planBudget(["b", "a"], new Map(), 0);
  expect(first).toMatchObject({ names: ["a", "b"], leftMilliseconds: 60_000 });
  const second = planBudget(["a", "b", "c"], first.since, 40_000);
  expect(second).toMatchObject({ names: ["a", "b", "c"], leftMilliseconds: 20_000 });
  const third = planBudget(["a", "c"], second.since, 60_000);
  expect(third).toMatchObject({ names: ["c"], leftMilliseconds: 40_000 });
  // One whose node is marked again later is kept again.
  expect(planBudget(["b"], third.since, 70_000)).toMatchObject({ names: ["b"], leftMilliseconds: 60_000 });
  expect(planBudget(["a"], third.since, 100_000).names).toEqual([]);
  expect(planBudget([], third.since, 100_000)).toEqual({ names: [], since: new Map() });
});
