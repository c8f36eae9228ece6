import { inspect } from "node:util";
import { type Input, output, type Output, RunError } from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";
import { type InstallField, parseInstallField } from "../src/install/install-options.ts";

/** The error with which a program ends, in one line. */
export function runError(error: unknown): RunError {
  const message = RametError.from(error).describe();
  const refused = new RunError(message);
  // Pulumi puts before it which of its own properties it was about to write when it met the error.
  Object.defineProperty(refused, "message", { get: () => message, set: () => undefined });
  // And it prints the error in colors, for which Node 22 takes most of a minute with a stack through `node_modules/@pulumi`.
  Object.defineProperty(refused, inspect.custom, { value: () => message });
  return refused;
}

/** An argument of an installation, judged when it is known. @throws RunError */
export function validatedField<T>(field: InstallField, value: Input<T>): Output<T> {
  return output(value).apply((known) => withRunError(() => parseInstallField(field, known) as T));
}

/** @throws RunError in place of what is thrown */
export function withRunError<T>(validate: () => T): T {
  try {
    return validate();
  } catch (error) {
    throw runError(error);
  }
}
