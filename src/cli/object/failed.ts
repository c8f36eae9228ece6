import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { UserKindName } from "./user-kind.ts";

/** Whether an object has failed for good, so that only its report is left. An object that cannot be read has not. */
export function hasFailed(kind: UserKindName, object: KubeObject): boolean {
  switch (kind) {
    case "sandbox":
      return ended.has(Sandbox.safeParse(object).data?.status?.phase);
    case "checkpoint":
      return Checkpoint.safeParse(object).data?.status?.phase === "Failed";
    case "claim":
      return isIncomplete(SandboxClaim.safeParse(object).data);
    default:
      return false;
  }
}

const ended: ReadonlySet<string | undefined> = new Set(["Failed", "Succeeded"]);

function isIncomplete(claim: SandboxClaim | undefined): boolean {
  if (claim?.status?.phase !== "Completed") return false;
  return (claim.status.claimedReplicas ?? 0) < claim.spec.replicas;
}
