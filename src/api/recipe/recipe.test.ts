import { expect, it } from "vitest";
import { actionOf, describeStep, RecipeStep } from "./recipe.ts";

it.each([
  [{ run: "pip  install\n pandas", env: { A: "1" } }, "run pip install pandas"],
  [{ copy: { path: "/a", content: "secret" } }, "copy /a"],
  [{ env: { A: "1", B: "2" } }, "env A, B"],
  [{ workdir: "/srv" }, "workdir /srv"],
  [{ user: "app" }, "user app"],
  [{ start: "server", user: "app" }, "start server"],
  [{ waitFor: { port: 80 } }, "waitFor port 80"],
  [{ waitFor: { file: "/ready" } }, "waitFor /ready"],
  [{ run: "x".repeat(500) }, `run ${"x".repeat(115)}…`],
])("describes %j in one line", (step, line) => {
  expect(describeStep(RecipeStep.parse(step))).toBe(line);
});

it("returns the command as the action of a step that also has env and user", () => {
  expect(actionOf({ run: "x", env: {}, user: "a" })).toBe("run");
  expect(actionOf({ env: {} })).toBe("env");
});
