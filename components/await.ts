import { type Input, output, type Output } from "@pulumi/pulumi";
import { parseTimeSpan } from "../provider/handlers/time-span.ts";
import { withRunError } from "./run-error.ts";

/**
 * What Pulumi's Kubernetes provider waits for: all of these conditions (https://github.com/pulumi/pulumi-kubernetes/pull/3134).
 * It is an annotation of the object, and has no effect in the cluster.
 */
export function waitForConditions(...conditions: string[]): Record<string, string> {
  return { "pulumi.com/waitFor": JSON.stringify(conditions.map((condition) => `condition=${condition}`)) };
}

/**
 * Pulumi's Kubernetes provider removes in the foreground by default: an object goes when a garbage collector has removed what belongs to
 * it. The cluster on one machine has no such collector; Ramet's controllers remove what is theirs.
 */
export const deleteInBackground = { "pulumi.com/deletionPropagationPolicy": "background" };

/** For how long Pulumi's Kubernetes provider waits, where the program says it. @throws RunError */
export function waitTimeout(timeout: Input<string> | undefined): Record<string, Output<string>> {
  if (timeout === undefined) return {};
  const seconds = output(timeout).apply((text) => withRunError(() => Math.ceil(parseTimeSpan(text, "timeout") / 1000)));
  return { "pulumi.com/timeoutSeconds": seconds.apply(String) };
}

/** The value; undefined where a preview does not know it yet. For what decides which resources there are. */
export async function knownValue<T>(input: Input<T>): Promise<T | undefined> {
  const value = output(input) as unknown as Waited<T>;
  // Pulumi runs no `apply` for a value that is not known, and does not say so to the program.
  return (await value.isKnown) ? value.promise() : undefined;
}

/** What every output of Pulumi's has, beside what its types tell. */
interface Waited<T> {
  isKnown: Promise<boolean>;
  promise(): Promise<T>;
}
