import { inspect } from "node:util";
import { RunError } from "@pulumi/pulumi";
import { expect, it } from "vitest";
import { RametError } from "../src/base/errors.ts";
import { runError } from "./run-error.ts";

it("stays a single line when Pulumi changes its message or adds properties", () => {
  const refused = runError(new RametError("NotFound", "There is no cluster", { hint: "Start one" }));
  refused.message = `error serializing property "outputs": ${refused.message}`;
  Object.assign(refused, { promise: { all: "of the program" } });
  expect(refused.message).toBe("There is no cluster. Start one [NotFound]");
  expect(inspect(refused)).toBe(refused.message);
  expect(RunError.isInstance(refused)).toBe(true);
});
