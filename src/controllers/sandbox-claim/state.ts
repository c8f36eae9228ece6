import type { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxClaim, SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import type { Transition } from "../../kube/events.ts";

/** The state from which a claim is planned. */
export interface ClaimState {
  claim: SandboxClaim;
  /** An invalid spec or a missing set, which waiting cannot fix. */
  problem: { reason: string; message: string } | undefined;
  /** Sandboxes labelled with the claim's name and owned by its UID. */
  members: Member[];
  /** Ordinals with a running attempt. */
  underWay: readonly number[];
  /** Ordinals whose locks exist on a sandbox, including sandboxes that are being deleted or kept. */
  used: ReadonlySet<number>;
  /** The error of the last attempt. */
  error: RametError | undefined;
  /** Pause before a failed sandbox is replaced; 0: none. */
  pauseMilliseconds: number;
  startedAt: Date;
  /** Time until the claim counts as slow and its status reports what it waits for; 0: it does. */
  slowInMilliseconds: number;
  now: Date;
}

export interface Member {
  sandbox: Sandbox;
  progress: MemberProgress;
}

export type MemberProgress =
  | { is: "ready" }
  /** Not ready, or without its environment. */
  | { is: "waiting"; until: Date; why: string }
  | { is: "failed"; why: string };

export type ClaimAction =
  | { do: "startClaim"; ordinal: number; deadline: Date }
  /** Stops the attempts that wait for a ready sandbox. A write that was sent is completed. */
  | { do: "stopClaims" }
  | { do: "deleteSandbox"; sandbox: Sandbox }
  | { do: "keepFailed"; sandbox: Sandbox }
  | { do: "deleteClaim" };

export interface ClaimPlan {
  actions: ClaimAction[];
  /** The complete status, if it may have changed; written after the actions. */
  status?: SandboxClaimStatus;
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}
