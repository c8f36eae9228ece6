import { expect, it } from "vitest";
import { stepContext } from "./step.ts";

const recipe = [
  { env: { A: "1", B: "1" } },
  { workdir: "/a" },
  { run: "one", env: { A: "2", C: "2" }, user: "app", cwd: "/b" },
  { user: "root" },
  { run: "two" },
  { copy: { path: "/c", content: "", user: "other" } },
];

it.each([
  [2, { environment: { A: "2", B: "1", C: "2" }, workingDirectory: "/b", user: "app" }],
  [4, { environment: { A: "1", B: "1" }, workingDirectory: "/a", user: "root" }],
  [5, { environment: { A: "1", B: "1" }, workingDirectory: "/a", user: "other" }],
  [0, { environment: { A: "1", B: "1" } }],
])("gives step %i the settings of earlier steps and its own", (index, context) => {
  expect(stepContext(recipe, index)).toEqual(context);
});
