import { inspect } from "node:util";
import { RunError } from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";

/** The error with which a program ends, in one line. */
export function refusal(error: unknown): RunError {
  const message = RametError.from(error).describe();
  const refused = new RunError(message);
  // Pulumi puts before it which of its own properties it was about to write when it met the error.
  Object.defineProperty(refused, "message", { get: () => message, set: () => undefined });
  // And it prints the error in colors, for which Node 22 takes most of a minute with a stack through `node_modules/@pulumi`.
  Object.defineProperty(refused, inspect.custom, { value: () => message });
  return refused;
}
