import { inspect } from "node:util";
import { type Input, output, type Output, RunError } from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";
import { parseSetting } from "../src/install/install-options.ts";
import type { SettingKey } from "../src/install/settings.ts";

/** An error that ends the program with a single line. */
export function runError(error: unknown): RunError {
  const cause = RametError.from(error);
  const message = cause.describe();
  const refused = new RunError(message);
  // Pulumi would prefix the message with the property that it was serializing.
  Object.defineProperty(refused, "message", { get: () => message, set: () => undefined });
  Object.defineProperty(refused, "cause", { value: cause });
  // Pulumi prints errors in color, which takes Node 22 most of a minute for a stack trace through `node_modules/@pulumi`.
  Object.defineProperty(refused, inspect.custom, { value: () => message });
  return refused;
}

/** The error that a RunError was made of, or anything else that a component throws. */
export function errorOf(thrown: unknown): RametError {
  const isOurs = thrown instanceof RunError && thrown.cause instanceof RametError;
  return isOurs ? (thrown.cause as RametError) : RametError.from(thrown);
}

/** An argument of an installation, validated as soon as it is known. @throws RunError */
export function validatedField<T>(field: SettingKey, value: Input<T>): Output<T> {
  return output(value).apply((known) => withRunError(() => parseSetting(field, known) as T));
}

/** Runs `validate` and converts what it throws. @throws RunError */
export function withRunError<T>(validate: () => T): T {
  try {
    return validate();
  } catch (error) {
    throw runError(error);
  }
}
