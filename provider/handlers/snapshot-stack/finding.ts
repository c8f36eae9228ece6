import type { ErrorCode } from "../../../src/base/error-codes.ts";
import { RametError } from "../../../src/base/errors.ts";

/** Something that is not as a stack wishes it. */
export interface Finding {
  code: ErrorCode;
  /** What is missing or in the way. */
  what: string;
  /** What to do about it: one sentence. */
  how: string;
  /** `refuse`: nothing may be declared; `tell`: it is said, and the stack goes on. */
  weight: "refuse" | "tell";
}

/** @throws RametError with all that is in the way at once, if anything is */
export function refuseFor(cloud: string, findings: readonly Finding[]): void {
  const [first, ...others] = findings.filter(({ weight }) => weight === "refuse");
  if (first === undefined) return;
  const rest = others.map(({ what, how }) => `. Besides: ${what} (${how})`).join("");
  throw new RametError(first.code, `The snapshot stack for ${cloud} cannot be declared: ${first.what}${rest}`, {
    hint: first.how,
  });
}
