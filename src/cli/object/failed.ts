import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { UserKindName } from "./user-kind.ts";

/** Whether an object has failed for good, so that only its report is left. An object that cannot be read has not. */
export function hasFailed(kind: UserKindName, object: KubeObject): boolean {
  switch (kind) {
    case "sandbox": {
      const phase = Sandbox.safeParse(object).data?.status?.phase;
      return phase === "Failed" || phase === "Succeeded";
    }
    case "checkpoint":
      return Checkpoint.safeParse(object).data?.status?.phase === "Failed";
    case "claim": {
      const { spec, status } = SandboxClaim.safeParse(object).data ?? {};
      return status?.phase === "Completed" && (status.claimedReplicas ?? 0) < (spec?.replicas ?? 0);
    }
    default:
      return false;
  }
}
