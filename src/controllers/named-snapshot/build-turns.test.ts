import { expect, it } from "vitest";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { cluster, upgradeTurns } from "./build-turns.ts";

const snapshot = (name: string) => ({ metadata: { namespace: "t", name } }) as NamedSnapshot;

it("lets as many snapshots upgrade as the limit says, and the others in the order in which they asked", () => {
  let limit = 1;
  const turns = upgradeTurns(
    () => limit,
    () => [],
  );
  const take = (name: string) => turns.take(`t/${name}`) === undefined;
  expect(["a", "b", "c", "d", "a"].map(take)).toEqual([true, false, false, false, true]);
  limit = 2;
  expect(turns.next(cluster)).toEqual(["t/b"]);
  // It asked later than b.
  expect(take("c")).toBe(false);
  expect(take("b")).toBe(true);
  expect(turns.release("t/a")).toEqual(["t/c"]);
  // A snapshot that no longer waits lets the next one go first.
  expect(turns.release("t/c")).toEqual(["t/d"]);
  expect([take("d"), take("c")]).toEqual([true, false]);
});

it("counts those that the objects show, so that a restart starts no more", () => {
  const turns = upgradeTurns(
    () => 1,
    () => [snapshot("a")],
  );
  expect(turns.take("t/b")).toBe("1 of at most 1 named snapshots are being captured again");
  expect(turns.take("t/a")).toBeUndefined();
});
