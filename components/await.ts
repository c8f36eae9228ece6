import { type Input, output, type Output } from "@pulumi/pulumi";
import { parseTimeSpan } from "../provider/handlers/time-span.ts";
import { withRunError } from "./run-error.ts";

/**
 * The annotation that makes Pulumi's Kubernetes provider wait until all of these conditions are true
 * (https://github.com/pulumi/pulumi-kubernetes/pull/3134). It has no effect in the cluster.
 */
export function waitForConditions(...conditions: string[]): Record<string, string> {
  return { "pulumi.com/waitFor": JSON.stringify(conditions.map((condition) => `condition=${condition}`)) };
}

/**
 * By default Pulumi's Kubernetes provider deletes in the foreground. Ramet's controllers delete dependent objects themselves, in
 * their order, so nothing needs to wait for a garbage collector.
 */
export const deleteInBackground = { "pulumi.com/deletionPropagationPolicy": "background" };

/**
 * The annotation that limits how long Pulumi's Kubernetes provider waits, if the program sets a timeout.
 * @throws RunError
 */
export function waitTimeout(timeout: Input<string> | undefined): Record<string, Output<string>> {
  if (timeout === undefined) return {};
  const seconds = output(timeout).apply((text) => withRunError(() => Math.ceil(parseTimeSpan(text, "timeout") / 1000)));
  return { "pulumi.com/timeoutSeconds": seconds.apply(String) };
}

/** Returns the value, or undefined while a preview does not know it. For values that decide which resources exist. */
export async function knownValue<T>(input: Input<T>): Promise<T | undefined> {
  const value = output(input) as unknown as OutputInternals<T>;
  // Pulumi skips `apply` for an unknown value without telling the program.
  return (await value.isKnown) ? value.promise() : undefined;
}

/** Members of every Pulumi output that its types leave out. */
interface OutputInternals<T> {
  isKnown: Promise<boolean>;
  promise(): Promise<T>;
}
