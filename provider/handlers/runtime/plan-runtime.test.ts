import { expect, it } from "vitest";
import type { RuntimeFacts } from "./find-runtime.ts";
import { planRuntime } from "./plan-runtime.ts";

const nothing: RuntimeFacts = { missingCrds: ["a"], otherCrds: [] };
const theirs: RuntimeFacts = { sign: "the Deployment ramet-system/ramet-controller", missingCrds: [], otherCrds: [] };
const declaredBy = (by: string): RuntimeFacts => ({ ...theirs, declared: { by, object: "deployment c" } });

it("installs where nothing is and where it has installed, and adopts what others than programs run", () => {
  expect(planRuntime("auto", nothing, ["me"])).toBe("install");
  expect(planRuntime("auto", declaredBy("me"), ["me"])).toBe("install");
  expect(planRuntime("auto", theirs, ["me"])).toBe("adopt");
  expect(planRuntime("install", declaredBy("me"), ["me"])).toBe("install");
  expect(planRuntime("adopt", declaredBy("you"), ["me"])).toBe("adopt");
});

it("goes on with what is its own by its name or an earlier one, also with what is left of it", () => {
  expect(planRuntime("auto", declaredBy("before"), ["me", "before"])).toBe("install");
  const left = { ...nothing, declared: { by: "me", object: "clusterrole c" } };
  expect(planRuntime("auto", left, ["me"])).toBe("install");
  expect(() => planRuntime("auto", left, ["you"])).toThrow(/declared by me/);
});

it("never adopts what it may have declared itself: that would be removed", () => {
  expect(() => planRuntime("auto", declaredBy("before"), ["me"])).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(/declared by before, and this is me/) as string,
      hint: expect.stringMatching(
        /kubectl annotate --overwrite deployment c ramet\.dev\/pulumi-resource=me$/,
      ) as string,
    }),
  );
  expect(() => planRuntime("adopt", declaredBy("me"), ["me"])).toThrow(/would remove them/);
});

it("refuses a second installation, and to adopt what is not there or of another version", () => {
  expect(() => planRuntime("install", theirs, ["me"])).toThrow(/run in this cluster already: the Deployment/);
  expect(() => planRuntime("install", declaredBy("you"), ["me"])).toThrow(/declared by you/);
  expect(() => planRuntime("adopt", nothing, ["me"])).toThrow(/nothing to adopt/);
  expect(() => planRuntime("auto", { ...theirs, otherCrds: ["sandboxes"] }, ["me"])).toThrow(/another version/);
});
