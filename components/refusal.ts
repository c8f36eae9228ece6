import { inspect } from "node:util";
import { RunError } from "@pulumi/pulumi";
import { RametError } from "../src/api/errors.ts";

/** The error with which a program ends, in one line. */
export function refusal(error: unknown): RunError {
  const refused = new RunError(RametError.from(error).describe());
  // Pulumi prints an error with all that hangs on it, which is the whole program: that takes most of a minute.
  Object.defineProperty(refused, inspect.custom, { value: () => refused.stack ?? refused.message });
  return refused;
}
