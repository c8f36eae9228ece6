import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { Claimed, ClaimParts } from "../../claim/claim-sandbox.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempts, SlowStart } from "../common/attempts.ts";
import type { ControllerParts } from "../common/controller-parts.ts";
import type { Pursuit } from "./pursuit.ts";

/** What of the process this controller is made from: it speaks to no cell. */
export type ClaimControllerParts = Pick<
  ControllerParts,
  "informers" | "cache" | "backends" | "sandboxWrites" | "events" | "clock" | "random" | "metrics"
>;

export interface ClaimDependencies extends ClaimControllerParts {
  /** With what `claimSandbox` claims. */
  claimParts: ClaimParts;
  statuses: StatusWriter<SandboxClaim>;
  attempts: Attempts<Claimed>;
  /** By the claim's UID: what this process does for it and a restart need not know. */
  pursuits: Map<string, Pursuit>;
  /** Sandboxes that a claim waits for: by their UIDs, the claim's key. */
  awaited: Map<string, string>;
  slowStart: SlowStart;
  /** Sandboxes of a claim, by `namespace/claim`. */
  sandboxesOfClaim: (key: string) => ReturnType<ControllerParts["cache"]["sandboxesOfSet"]>;
  enqueue: (key: string) => void;
}
