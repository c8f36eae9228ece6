import { expect, it } from "vitest";
import { clientVariables, withClientSandboxId } from "./client-environment.ts";

const uid = "a0690d67-b8aa-4ed8-a247-d1fba7eb76c4";
const requested = { [clientVariables.sandbox]: "true", [clientVariables.templateId]: "base", MORE: "more" };

it("adds the sandbox's own id to the environment of an E2B client, whatever the client requests", () => {
  const expected = { ...requested, E2B_SANDBOX_ID: "a0690d67b8aa4ed8a247d1fba7eb76c4" };
  expect(withClientSandboxId(requested, uid)).toEqual(expected);
  expect(withClientSandboxId({ ...requested, E2B_SANDBOX_ID: "forged" }, uid)).toEqual(expected);
});

it("leaves the environments of other sandboxes unchanged", () => {
  for (const environment of [{}, { MORE: "more" }, { E2B_SANDBOX: "false" }]) {
    expect(withClientSandboxId(environment, uid)).toEqual(environment);
  }
});
