import { output, type Input } from "@pulumi/pulumi";

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
