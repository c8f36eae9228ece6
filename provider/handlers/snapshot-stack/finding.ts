import type { ErrorCode } from "../../../src/base/error-codes.ts";
import { RametError } from "../../../src/base/errors.ts";

/** A difference between the cluster and what a stack needs. */
export interface Finding {
  code: ErrorCode;
  /** What is missing or conflicts. */
  problem: string;
  /** How to fix it: one sentence. */
  hint: string;
  /** An `error` prevents the stack from declaring anything; a `warning` is only reported. */
  severity: "error" | "warning";
}

/** @throws RametError with all errors among the findings, if there are any */
export function throwOnErrors(cloud: string, findings: readonly Finding[]): void {
  const [first, ...others] = findings.filter(({ severity }) => severity === "error");
  if (first === undefined) return;
  const rest = others.map(({ problem, hint }) => `. Also: ${problem} (${hint})`).join("");
  throw new RametError(first.code, `Cannot declare the snapshot stack for ${cloud}: ${first.problem}${rest}`, {
    hint: first.hint,
  });
}
