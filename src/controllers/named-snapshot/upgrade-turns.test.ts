import { expect, it } from "vitest";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { UpgradeTurns } from "./upgrade-turns.ts";

const snapshot = (name: string) => ({ metadata: { namespace: "t", name } }) as NamedSnapshot;

it("lets as many snapshots upgrade as the limit says, and the others in the order in which they asked", () => {
  let limit = 1;
  const turns = new UpgradeTurns({ limit: () => limit, upgrading: () => [] });
  const take = (name: string) => turns.take(snapshot(name)) === undefined;
  expect(["a", "b", "c", "d", "a"].map(take)).toEqual([true, false, false, false, true]);
  limit = 2;
  expect(turns.next()).toEqual(["t/b"]);
  // It asked later than b.
  expect(take("c")).toBe(false);
  expect(take("b")).toBe(true);
  expect(turns.release("t/a")).toEqual(["t/c"]);
  // A snapshot that no longer waits lets the next one go first.
  expect(turns.release("t/c")).toEqual(["t/d"]);
  expect([take("d"), take("c")]).toEqual([true, false]);
});

it("counts those that the objects show, so that a restart starts no more", () => {
  const turns = new UpgradeTurns({ limit: () => 1, upgrading: () => [snapshot("a")] });
  expect(turns.take(snapshot("b"))).toBe("1 of at most 1 named snapshots are being captured again");
  expect(turns.take(snapshot("a"))).toBeUndefined();
});
