import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { Claimed, ClaimParts } from "../../claim/claim-sandbox.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempts, SlowStart } from "../common/attempts.ts";
import type { ControllerParts } from "../common/controller-parts.ts";
import type { Pursuit } from "./pursuit.ts";

/** This controller does not call cells. */
export type ClaimControllerParts = Pick<
  ControllerParts,
  "informers" | "cache" | "backends" | "sandboxWrites" | "events" | "clock" | "random" | "metrics"
>;

export interface ClaimDependencies extends ClaimControllerParts {
  claimParts: ClaimParts;
  statuses: StatusWriter<SandboxClaim>;
  attempts: Attempts<Claimed>;
  /** By claim UID. Does not need to survive a restart. */
  pursuits: Map<string, Pursuit>;
  /** Keys of claims, by the UID of a sandbox that they wait for. */
  awaited: Map<string, string>;
  slowStart: SlowStart;
  /** Sandboxes of a claim, by `namespace/claim`. */
  sandboxesOfClaim: (key: string) => ReturnType<ControllerParts["cache"]["sandboxesOfSet"]>;
  enqueue: (key: string) => void;
}
