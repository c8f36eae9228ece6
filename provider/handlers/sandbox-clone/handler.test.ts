import { expect, it } from "vitest";
import { diffSandboxClone } from "./handler.ts";

const clone = {
  name: "dev",
  namespace: "default",
  from: "data",
  ports: [8000],
  timeout: "5 minutes",
  owner: "o/p/s/dev",
};
const nothing = { changes: false, replaces: [], deleteBeforeReplace: false };

it("keeps the ports of its recipe, and is replaced if the program sets other ports", () => {
  const following = { ...clone, portsFollow: true };
  expect(diffSandboxClone(following, { ...following, ports: [9000] })).toEqual(nothing);
  const chosen = { ...clone, portsFollow: false };
  expect(diffSandboxClone(chosen, { ...chosen, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
  expect(diffSandboxClone(following, { ...chosen, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
  expect(diffSandboxClone(chosen, { ...following, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
});

it("treats the ports of a state without portsFollow as the recipe's", () => {
  expect(diffSandboxClone(clone, { ...clone, portsFollow: true, ports: [9000] })).toEqual(nothing);
  expect(diffSandboxClone(clone, { ...clone, portsFollow: false })).toEqual(nothing);
});

it("is replaced if it gets another template", () => {
  const named = { ...clone, templateName: "small" };
  expect(diffSandboxClone(named, named)).toEqual(nothing);
  expect(diffSandboxClone(clone, named)).toMatchObject({ replaces: ["templateName"] });
});
