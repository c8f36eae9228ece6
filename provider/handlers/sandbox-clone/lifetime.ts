import type { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { parseTimeSpan } from "../time-span.ts";
import type { SandboxCloneInputs } from "./inputs.ts";

/**
 * Declares a clone that ends a lifetime after the API server made it. That time is not known beforehand, and clocks differ: one that turns out to
 * end at another time is declared once more.
 * @param living the clone, where it is there
 */
export async function declareWithEnd(
  inputs: SandboxCloneInputs,
  { living, now }: { living: Sandbox | undefined; now: Date },
  declare: (end: { shutdownTime?: string }) => Promise<Sandbox>,
): Promise<Sandbox> {
  const expected = endOf(inputs, living?.metadata.creationTimestamp ?? now);
  const declared = await declare(expected);
  const exact = endOf(inputs, declared.metadata.creationTimestamp);
  return exact.shutdownTime === expected.shutdownTime ? declared : declare(exact);
}

/** When a clone that was made then is deleted, RFC 3339, as its object says it; one without a lifetime says nothing. */
function endOf({ lifetime }: SandboxCloneInputs, madeAt: Date | string): { shutdownTime?: string } {
  if (lifetime === undefined) return {};
  const ends = new Date(madeAt).getTime() + parseTimeSpan(lifetime, "lifetime");
  return { shutdownTime: new Date(ends).toISOString().replace(/\.\d+Z$/, "Z") };
}

/** With the lifetime that somebody else has given it since. Of one that is paused, the controller has moved the end. */
export function seenLifetime(inputs: SandboxCloneInputs, { metadata, spec }: Sandbox): SandboxCloneInputs {
  const { shutdownTime: declared } = endOf(inputs, metadata.creationTimestamp);
  const { shutdownTime: seen, paused } = spec;
  if (declared === undefined || declared === seen || paused === true) return inputs;
  const { lifetime: _, ...others } = inputs;
  if (seen === undefined) return others;
  const seconds = (Date.parse(seen) - Date.parse(metadata.creationTimestamp)) / 1000;
  return { ...others, lifetime: `${Math.max(1, seconds)} seconds` };
}
