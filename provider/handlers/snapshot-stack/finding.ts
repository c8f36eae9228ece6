import type { ErrorCode } from "../../../src/base/error-codes.ts";
import { RametError } from "../../../src/base/errors.ts";

/** Something that is not as a stack wishes it. */
export interface Finding {
  code: ErrorCode;
  /** What is missing or in the way. */
  problem: string;
  /** What to do about it: one sentence. */
  hint: string;
  /** `error`: nothing may be declared; `warning`: it is said, and the stack goes on. */
  severity: "error" | "warning";
}

/** @throws RametError with all that is in the way at once, if anything is */
export function throwOnErrors(cloud: string, findings: readonly Finding[]): void {
  const [first, ...others] = findings.filter(({ severity }) => severity === "error");
  if (first === undefined) return;
  const rest = others.map(({ problem, hint }) => `. Besides: ${problem} (${hint})`).join("");
  throw new RametError(first.code, `The snapshot stack for ${cloud} cannot be declared: ${first.problem}${rest}`, {
    hint: first.hint,
  });
}
