import { expect, it } from "vitest";
import type { RuntimeFacts } from "./find-runtime.ts";
import { planRuntime } from "./plan-runtime.ts";

const nothing: RuntimeFacts = { missingCrds: ["a"], otherCrds: [], readOnlyCrds: [], otherControllers: [] };
const theirs: RuntimeFacts = {
  ...nothing,
  sign: "the Deployment ramet-system/ramet-controller",
  missingCrds: [],
};
const declaredBy = (by: string): RuntimeFacts => ({ ...theirs, declared: { by, object: "deployment c" } });

it("installs into an empty cluster or its own installation, and adopts controllers that no program declares", () => {
  expect(planRuntime("auto", nothing, ["me"])).toBe("install");
  expect(planRuntime("auto", declaredBy("me"), ["me"])).toBe("install");
  expect(planRuntime("auto", theirs, ["me"])).toBe("adopt");
  expect(planRuntime("install", declaredBy("me"), ["me"])).toBe("install");
  expect(planRuntime("adopt", declaredBy("you"), ["me"])).toBe("adopt");
});

it("keeps its own installation under its current or an earlier name, even if only parts remain", () => {
  expect(planRuntime("auto", declaredBy("before"), ["me", "before"])).toBe("install");
  const left = { ...nothing, declared: { by: "me", object: "clusterrole c" } };
  expect(planRuntime("auto", left, ["me"])).toBe("install");
  expect(() => planRuntime("auto", left, ["you"])).toThrow(/declared by me/);
});

it("never adopts controllers that it may have declared itself, because they would be deleted", () => {
  expect(() => planRuntime("auto", declaredBy("before"), ["me"])).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(/declared by before, not by me/) as string,
      hint: expect.stringMatching(
        /kubectl annotate --overwrite deployment c ramet\.dev\/pulumi-resource=me$/,
      ) as string,
    }),
  );
  expect(() => planRuntime("adopt", declaredBy("me"), ["me"])).toThrow(/would delete them/);
});

it("rejects a second installation, and adopting missing controllers or another version", () => {
  expect(() => planRuntime("install", theirs, ["me"])).toThrow(/already run in this cluster: the Deployment/);
  expect(() => planRuntime("install", declaredBy("you"), ["me"])).toThrow(/declared by you/);
  expect(() => planRuntime("adopt", nothing, ["me"])).toThrow(/Cannot adopt: no Ramet controllers run/);
  expect(() => planRuntime("auto", { ...theirs, otherCrds: ["sandboxes"] }, ["me"])).toThrow(/another version/);
});

it("refuses to install where another controller owns the kinds, and names it", () => {
  const lease = { name: "OpenKruise Agents or ACS", sign: "the Lease sandbox-system/f57b9a68.kruise.io, held by a" };
  const beside = { ...nothing, otherControllers: [lease] };
  const refusal = expect.objectContaining({
    code: "OtherController",
    message: expect.stringMatching(/Cannot install the controllers: another .* sandbox-system\/f57b9a68/) as string,
    hint: expect.stringContaining('mode: "beside"') as string,
  }) as Error;
  expect(() => planRuntime("auto", beside, ["me"])).toThrow(refusal);
  expect(() => planRuntime("install", beside, ["me"])).toThrow(refusal);
  expect(() => planRuntime("auto", { ...beside, ...declaredBy("me"), otherControllers: [lease] }, ["me"])).toThrow(
    refusal,
  );
});

it("installs beside another controller only if the program says so, and never beside Ramet's own", () => {
  const lease = { name: "OpenKruise Agents or ACS", sign: "the Lease sandbox-system/f57b9a68.kruise.io, held by a" };
  expect(planRuntime("beside", { ...nothing, otherControllers: [lease] }, ["me"])).toBe("beside");
  expect(planRuntime("beside", nothing, ["me"])).toBe("beside");
  expect(planRuntime("beside", { ...theirs, ...declaredBy("me") }, ["me"])).toBe("beside");
  expect(() => planRuntime("beside", theirs, ["me"])).toThrow(/Ramet controllers already run/);
});
