import { expect, it } from "vitest";
import type { RuntimeFacts } from "./find-runtime.ts";
import { planRuntime } from "./plan-runtime.ts";

const nothing: RuntimeFacts = { hasController: false, missingCrds: ["a"], otherCrds: [] };
const others: RuntimeFacts = { hasController: true, missingCrds: [], otherCrds: [] };
const ours: RuntimeFacts = { ...others, declaredBy: "me" };

it("installs where nothing is and where it has installed, and adopts what others run", () => {
  expect(planRuntime("auto", nothing, "me")).toBe("install");
  expect(planRuntime("auto", ours, "me")).toBe("install");
  expect(planRuntime("auto", others, "me")).toBe("adopt");
  expect(planRuntime("auto", { ...ours, declaredBy: "you" }, "me")).toBe("adopt");
  expect(planRuntime("install", ours, "me")).toBe("install");
});

it("refuses a second installation, and to adopt what is not there or of another version", () => {
  expect(() => planRuntime("install", others, "me")).toThrow(/run in this cluster already/);
  expect(() => planRuntime("install", { ...ours, declaredBy: "you" }, "me")).toThrow(/declared by you/);
  expect(() => planRuntime("adopt", nothing, "me")).toThrow(/nothing to adopt/);
  expect(() => planRuntime("auto", { ...others, otherCrds: ["sandboxes"] }, "me")).toThrow(/another version/);
});
