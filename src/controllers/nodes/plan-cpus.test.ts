import fc from "fast-check";
import { expect, it } from "vitest";
import { anyNode, type NodeCpu, planCpus } from "./plan-cpus.ts";

const node = (name: string, features?: string[], labels: Record<string, string> = {}): NodeCpu => ({
  name,
  labels: { "kubernetes.io/hostname": `host-${name}`, ...labels },
  features: features && new Set(features),
});
const type = (value: string) => ({ "node.kubernetes.io/instance-type": value });
const discovered = (model: string) => ({
  "feature.node.kubernetes.io/cpu-cpuid.AVX2": "true",
  "feature.node.kubernetes.io/cpu-model.id": model,
});

it("changes no Pod while no node is known to lack a feature", () => {
  expect(planCpus(["avx2"], [node("a", ["avx2", "sse2"]), node("b")], [])).toBe(anyNode);
  expect(planCpus([], [node("a", [])], [])).toBe(anyNode);
});

it("avoids the nodes that lack a feature, and names it", () => {
  const nodes = [node("a", ["sse2", "avx2"]), node("b", ["sse2"]), node("c", [])];
  expect(planCpus(["sse2", "avx2"], nodes, [])).toEqual({
    lacking: ["b", "c"],
    missing: ["avx2", "sse2"],
    avoided: { names: ["b", "c"], instanceTypes: [] },
  });
});

it("avoids nodes that have refused the memory, whatever is known about them", () => {
  expect(planCpus(["avx2"], [node("a"), node("b")], ["b", "gone"])).toMatchObject({ lacking: ["b"], missing: [] });
});

it("prefers instance types, or else nodes, that are known to fit while others are unknown", () => {
  const known = [node("a", ["avx2"], type("new")), node("b", [], type("old"))];
  expect(planCpus(["avx2"], [...known, node("c")], []).avoided?.preferred).toEqual({
    label: "node.kubernetes.io/instance-type",
    values: ["new"],
  });
  const mixed = [node("a", ["avx2"], type("one")), node("b", [], type("one")), node("c")];
  expect(planCpus(["avx2"], mixed, []).avoided?.preferred).toEqual({
    label: "kubernetes.io/hostname",
    values: ["host-a"],
  });
  expect(planCpus(["avx2"], known, []).avoided).not.toHaveProperty("preferred");
});

it("takes the CPU of a node on which no cell has run from a node with the same labels of Node Feature Discovery", () => {
  const nodes = [
    node("a", ["avx2"], discovered("85")),
    node("b", [], discovered("63")),
    node("c", undefined, discovered("63")),
    node("d", undefined, discovered("85")),
    node("e", undefined, discovered("1")),
  ];
  const plan = planCpus(["avx2"], nodes, []);
  expect(plan.lacking).toEqual(["b", "c"]);
  expect(plan.avoided?.preferred?.values).toEqual(["host-a", "host-d"]);
});

it("names the instance types of many nodes, if no other node has one of them", () => {
  const many = Array.from({ length: 300 }, (_, at) => node(`old-${at}`, [], type(at < 250 ? "old" : "mixed")));
  const plan = planCpus(["avx2"], [...many, node("new", ["avx2"], type("mixed"))], []);
  expect(plan.lacking).toHaveLength(300);
  expect(plan.avoided?.instanceTypes).toEqual(["old"]);
  expect(plan.avoided?.names).toEqual(many.slice(250).map(({ name }) => name));
});

it("never avoids a node that has all features, nor one of which nothing is known", () => {
  const features = fc.subarray(["sse2", "avx", "avx2", "avx512f"]);
  const nodes = fc.uniqueArray(
    fc.record({
      name: fc.string({ minLength: 1, maxLength: 3 }),
      features: fc.option(features, { nil: undefined }),
      labels: fc.constantFrom({}, type("x"), type("y")),
    }),
    { selector: ({ name }) => name, maxLength: 8 },
  );
  fc.assert(
    fc.property(features, nodes, (needed, all) => {
      const { lacking, avoided } = planCpus(
        needed,
        all.map(({ name, features: own, labels }) => node(name, own, labels)),
        [],
      );
      const expected = all.filter(({ features: own }) => own !== undefined && needed.some((one) => !own.includes(one)));
      expect(lacking).toEqual(expected.map(({ name }) => name));
      expect(avoided?.names ?? []).toEqual(lacking);
    }),
  );
});
