import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { annotations, labels } from "../../api/names/labels.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { ObjectStore } from "../../kube/store.ts";
import { orderCandidates, Stock } from "./stock.ts";

function sandbox(name: string, metadata: Partial<Sandbox["metadata"]>, status?: Sandbox["status"]): Sandbox {
  return {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: {
      name,
      namespace: "n",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
      ...metadata,
    },
    spec: {},
    ...(status && { status }),
  };
}

function ready(name: string, engine: string): Sandbox {
  const metadata = {
    ownerReferences: [{ apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", name: "pool", uid: "u" }],
    labels: { [labels.sandboxPool]: "pool", [labels.sandboxClaimed]: "false" },
  };
  return sandbox(name, metadata, {
    phase: "Running",
    conditions: [{ type: "Ready", status: "True", reason: "r", message: "", lastTransitionTime: "" }],
    ramet: { engine },
  });
}

function candidate(name: string, revision: string, priority?: string): Sandbox {
  return sandbox(name, {
    labels: { [labels.templateHash]: revision },
    ...(priority !== undefined && { annotations: { [annotations.sandboxPriority]: priority } }),
  });
}

it("hands out a sandbox that fits the memory to restore, and any other if none does", () => {
  const store = new ObjectStore<Sandbox>(() => undefined);
  store.replace([ready("a", "1"), ready("b", "2"), ready("c", "1"), ready("d", "2")], true);
  const stock = new Stock({ store, revisionOf: () => undefined });
  const take = (engine?: string) =>
    stock.take(
      { setKey: "n/pool", lock: "l" },
      engine === undefined ? undefined : ({ status }) => status?.ramet?.engine === engine,
    )?.metadata.name ?? "none";
  expect([take("2"), take("2")].toSorted()).toEqual(["b", "d"]);
  expect([take("2"), take(), take()].toSorted()).toEqual(["a", "c", "none"]);
});

const candidates = fc
  .array(fc.tuple(fc.constantFrom("old", "new"), fc.constantFrom(undefined, "0", "7", "-3", "100", "much")), {
    maxLength: 12,
  })
  .map((all) => all.map(([revision, priority], at) => candidate(`s${at}`, revision, priority)));
it("orders each candidate once, by newest revision and then by highest priority", () => {
  fc.assert(
    fc.property(candidates, fc.uuid(), (all, lock) => {
      const ordered = orderCandidates(all, "new", lock);
      expect(new Set(ordered)).toEqual(new Set(all));
      expect(ordered).toHaveLength(all.length);
      const ranks = ordered.map(({ metadata }) => [
        metadata.labels?.[labels.templateHash] === "new" ? 1 : 0,
        Number(metadata.annotations?.[annotations.sandboxPriority] ?? 0) || 0,
      ]);
      const sorted = ranks.toSorted(([a = 0, b = 0], [c = 0, d = 0]) => c - a || d - b);
      expect(ranks).toEqual(sorted);
    }),
  );
});

it("begins for each lock with one of several equal candidates, also if others are known", () => {
  const all = Array.from({ length: 20 }, (_, at) => candidate(`s${at}`, "new"));
  const first = (lock: string, some = all) => orderCandidates(some, "new", lock)[0]?.metadata.name;
  const chosen = Map.groupBy(
    Array.from({ length: 2_000 }, () => first(randomUUID())),
    (name) => name,
  );
  expect(chosen.size).toBe(20);
  for (const names of chosen.values()) expect(names.length).toBeLessThan(200);
  for (const lock of ["a", "b", "c"]) {
    const name = first(lock);
    const others = all.filter(({ metadata }, at) => at % 2 === 0 || metadata.name === name);
    expect(first(lock, others.toReversed())).toBe(name);
  }
});

it("gives a claim with the same lock what another one takes, until the informer shows it or the claim has failed", async () => {
  const store = new ObjectStore<Sandbox>(() => undefined);
  const stock = new Stock({ store, revisionOf: () => undefined });
  const at = { namespace: "n", lock: "l" };
  const taken = Promise.withResolvers<Sandbox | undefined>();
  const first = stock.noted(at, taken.promise);
  const second = stock.heldBy("n", "l");
  expect(second).toBeInstanceOf(Promise);
  expect(stock.heldBy("other", "l")).toBeUndefined();
  const claimed = sandbox("a", { annotations: { [annotations.lock]: "l" } });
  taken.resolve(claimed);
  expect(await Promise.all([first, second])).toEqual([claimed, claimed]);
  expect(await stock.heldBy("n", "l")).toBe(claimed);
  store.replace([claimed], true);
  expect(stock.heldBy("n", "l")).toBe(claimed);
  store.replace([], true);
  expect(stock.heldBy("n", "l")).toBeUndefined();
  await expect(stock.noted(at, Promise.reject(new Error("lost")))).rejects.toThrow("lost");
  expect(await stock.noted(at, Promise.resolve(undefined))).toBeUndefined();
  expect(stock.heldBy("n", "l")).toBeUndefined();
  const deleting = sandbox("b", {
    annotations: { [annotations.lock]: "l" },
    deletionTimestamp: "2026-01-01T00:00:00Z",
  });
  store.replace([deleting], true);
  expect(stock.heldBy("n", "l")).toBeUndefined();
});
