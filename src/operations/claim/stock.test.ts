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
  const stock = new Stock({ store, revisionOf: () => undefined, random: () => 0 });
  const take = (engine?: string) =>
    stock.take("n/pool", engine === undefined ? undefined : ({ status }) => status?.ramet?.engine === engine)?.metadata
      .name;
  expect([take("2"), take("2"), take("2"), take(), take()]).toEqual(["b", "d", "a", "c", undefined]);
});

const candidates = fc
  .array(fc.tuple(fc.constantFrom("old", "new"), fc.constantFrom(undefined, "0", "7", "-3", "100", "much")), {
    maxLength: 12,
  })
  .map((all) => all.map(([revision, priority], at) => candidate(`s${at}`, revision, priority)));
const start = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

it("orders each candidate once, by newest revision and then by highest priority", () => {
  fc.assert(
    fc.property(candidates, start, (all, from) => {
      const ordered = orderCandidates(all, "new", from);
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

it("starts at any of several equal candidates and wraps around", () => {
  const all = ["a", "b", "c", "d"].map((name) => candidate(name, "new"));
  const names = (from: number) => orderCandidates(all, "new", from).map(({ metadata }) => metadata.name);
  expect(names(0)).toEqual(["a", "b", "c", "d"]);
  expect(names(0.5)).toEqual(["c", "d", "a", "b"]);
  expect(names(0.999)).toEqual(["d", "a", "b", "c"]);
});
