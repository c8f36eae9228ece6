import type { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxClaim, SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import type { Transition } from "../../kube/events.ts";

/** All that a decision about one claim is made from. */
export interface ClaimState {
  claim: SandboxClaim;
  /** What no waiting mends: of the spec, or that there is no such set. */
  problem: { reason: string; message: string } | undefined;
  /** Sandboxes that bear the claim's name and UID. */
  members: Member[];
  /** Ordinals for which a sandbox is being claimed just now. */
  underWay: readonly number[];
  /** Ordinals whose locks are borne by something already, going or kept sandboxes too. */
  used: ReadonlySet<number>;
  /** What the last try came to, if that was an error. */
  error: RametError | undefined;
  /** Until another sandbox may be claimed in place of one that failed; 0 is now. */
  pauseMilliseconds: number;
  startedAt: Date;
  /** Until it takes so long that a status should say for what it waits; 0: it does. */
  slowInMilliseconds: number;
  now: Date;
}

export interface Member {
  sandbox: Sandbox;
  progress: MemberProgress;
}

/** How one claimed sandbox is. */
export type MemberProgress =
  | { is: "ready" }
  /** It is not ready, or its guest has not taken the environment. */
  | { is: "waiting"; until: Date; why: string }
  | { is: "failed"; why: string };

export type ClaimAction =
  | { do: "startClaim"; ordinal: number; deadline: Date }
  /** Those that wait for stock end; a write that was sent comes to its end. */
  | { do: "stopClaims" }
  | { do: "deleteSandbox"; sandbox: Sandbox }
  | { do: "keepFailed"; sandbox: Sandbox }
  | { do: "deleteClaim" };

export interface ClaimPlan {
  actions: ClaimAction[];
  /** The whole status, if it may have changed; written when the actions are done. */
  status?: SandboxClaimStatus;
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}
