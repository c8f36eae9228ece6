import type { SandboxClaim, SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Problem } from "../../api/schema/problem.ts";
import type { RametError } from "../../base/errors.ts";
import type { Claimed, ClaimParts } from "../../operations/claim/claim-sandbox.ts";
import type { Transition } from "../../kube/events.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempts, SlowStart } from "../cluster/attempts.ts";
import type { CellParts, ClusterParts, ControllerParts, DataParts, ProcessParts } from "../cluster/controller-parts.ts";
import type { Pursuit } from "./pursuit.ts";

export interface ClaimState {
  claim: SandboxClaim;
  /** An invalid spec or a missing set, which waiting cannot fix. */
  problem: ClaimEnd | undefined;
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
  /** How many ready sandboxes of the set can replace slow ones. */
  stock: number;
  startedAt: Date;
  /** When this process first saw the claim. */
  seenAt: Date;
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
  /** Not ready, or without its environment. From `slowFrom` on, a ready sandbox of the set replaces it. */
  | { is: "waiting"; slowFrom: Date; why: Problem }
  | { is: "failed"; why: Problem };

export interface ClaimEnd {
  /** The reason of the condition `Completed`. */
  reason: string;
  why: Problem;
  message: string;
}

export type ClaimAction =
  /** @property onlyStock whether to take a ready sandbox of the set or none */
  | { do: "startClaim"; ordinal: number; deadline: Date; onlyStock: boolean }
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

/** This controller does not call cells. */
export type ClaimControllerParts = ClusterParts &
  Omit<ProcessParts, "log"> &
  Pick<DataParts, "backends"> &
  Pick<CellParts, "engines" | "nodeCpus" | "podOptions" | "seal">;

export interface ClaimDependencies extends ClaimControllerParts {
  claimParts: ClaimParts;
  statuses: StatusWriter<SandboxClaim>;
  attempts: Attempts<Claimed>;
  /** By claim UID. Does not need to survive a restart. */
  pursuits: Map<string, Pursuit>;
  /** Keys of claims, by the UID of a sandbox that they wait for. */
  awaited: Map<string, string>;
  slowStart: SlowStart;
  /** How far the clock of the API server is ahead of this process's, in milliseconds; undefined: unknown. */
  serverClock: () => Promise<number | undefined>;
  /** Sandboxes of a claim, by `namespace/claim`. */
  sandboxesOfClaim: (key: string) => ReturnType<ControllerParts["cache"]["sandboxesOfSet"]>;
  enqueue: (key: string) => void;
}
