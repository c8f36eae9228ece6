import { expect, it } from "vitest";
import { parseLabelSelector } from "./label-selector.ts";

it("reads each form that kubectl takes", () => {
  expect(parseLabelSelector("a=1, b==2,c!=3,example.org/d in (x, y),e notin (z),f,!g,h=", "--selector")).toEqual([
    { key: "a", operator: "In", values: ["1"] },
    { key: "b", operator: "In", values: ["2"] },
    { key: "c", operator: "NotIn", values: ["3"] },
    { key: "example.org/d", operator: "In", values: ["x", "y"] },
    { key: "e", operator: "NotIn", values: ["z"] },
    { key: "f", operator: "Exists" },
    { key: "g", operator: "DoesNotExist" },
    { key: "h", operator: "In", values: [""] },
  ]);
});

it.each(["", "a=b,", "a in b", "a in (b", "a=b=c", "a b", "!a=b", "a/b/c=d", "-a=b", "a=_b", `a=${"b".repeat(64)}`])(
  "names the part of %j that is not valid",
  (text) => {
    expect(() => parseLabelSelector(text, "--namespace-selector")).toThrow(/^--namespace-selector is not a label/);
  },
);
