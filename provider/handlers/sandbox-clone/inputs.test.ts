import { expect, it } from "vitest";
import { diffSandboxClone } from "./inputs.ts";

const clone = {
  name: "dev",
  namespace: "default",
  from: "data",
  ports: [8000],
  timeout: "5 minutes",
  owner: "o/p/s/dev",
};
const nothing = { changes: false, replaces: [], deleteBeforeReplace: false };

it("keeps the ports of the recipe that it was made from, and is replaced for ports of the program's choice", () => {
  const following = { ...clone, portsFollow: true };
  expect(diffSandboxClone(following, { ...following, ports: [9000] })).toEqual(nothing);
  const chosen = { ...clone, portsFollow: false };
  expect(diffSandboxClone(chosen, { ...chosen, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
  expect(diffSandboxClone(following, { ...chosen, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
  expect(diffSandboxClone(chosen, { ...following, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
});

it("takes the ports of a state that does not say whose they are for the recipe's", () => {
  expect(diffSandboxClone(clone, { ...clone, portsFollow: true, ports: [9000] })).toEqual(nothing);
  expect(diffSandboxClone(clone, { ...clone, portsFollow: false })).toEqual(nothing);
});
