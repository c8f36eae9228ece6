import type { RametError } from "../../base/errors.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import { setCondition } from "../../kube/conditions.ts";
import type { SandboxState } from "./state.ts";

/** Answers a request with no, and keeps the rest of a status as it is. */
export function refused(
  state: SandboxState,
  status: SandboxStatus,
  { request, error }: { request: string; error: RametError },
): SandboxStatus {
  const told = withRolledBack(state, status, notRolledBack(error.code, error.describe()));
  return { ...told, ramet: { ...told.ramet, rollback: { request } } };
}

/** A status that says another thing of the last rollback. */
export function withRolledBack(
  { now }: SandboxState,
  status: SandboxStatus,
  told: Pick<Condition, "status" | "reason" | "message">,
): SandboxStatus {
  return { ...status, conditions: setCondition(status.conditions ?? [], { type: "RolledBack", ...told }, now) };
}

export function notRolledBack(reason: string, message: string) {
  return { type: "RolledBack", status: "False", reason, message } as const;
}
