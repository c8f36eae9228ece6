import { expect, it } from "vitest";
import { restoreFrom, restoreFromAnnotations } from "./labels.ts";

it.each(restoreFromAnnotations)("reads %s from the Sandbox and from its Pod template", (key) => {
  expect(restoreFrom({ metadata: { annotations: { [key]: "cp-1" } }, spec: {} })).toBe("cp-1");
  expect(restoreFrom({ metadata: {}, spec: { template: { metadata: { annotations: { [key]: "cp-1" } } } } })).toBe(
    "cp-1",
  );
});

it("reads the template that templateRef names instead of the one in the spec", () => {
  const template = { metadata: { annotations: { "agents.kruise.io/restore-from": "cp-2" } } };
  expect(restoreFrom({ metadata: {}, spec: {} }, template)).toBe("cp-2");
});

it("finds no reference in any template without annotations", () => {
  for (const template of [undefined, null, 1, "x", {}, { metadata: null }, { metadata: { annotations: ["a"] } }]) {
    expect(restoreFrom({ metadata: {}, spec: { template } })).toBeUndefined();
  }
  expect(restoreFrom({ metadata: { annotations: { "ramet.dev/restore-from": "" } }, spec: {} })).toBeUndefined();
});

it("accepts two annotations with one checkpoint, and rejects two checkpoints", () => {
  const both = (a: string, b: string) =>
    restoreFrom({
      metadata: { annotations: { "ramet.dev/restore-from": a } },
      spec: { template: { metadata: { annotations: { "checkpoint.alibabacloud.com/restore-from": b } } } },
    });
  expect(both("cp-1", "cp-1")).toBe("cp-1");
  expect(() => both("cp-1", "cp-2")).toThrow(/metadata\.annotations\[ramet\.dev\/restore-from\] is cp-1.*cp-2/);
});
