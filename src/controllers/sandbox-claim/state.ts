import type { SandboxClaim, SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { uuidOf } from "../../api/schema/digest.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { type Clock, backoffMilliseconds } from "../../base/clock.ts";
import type { RametError } from "../../base/errors.ts";
import type { Transition } from "../../kube/events.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { ClaimParts, Claimed } from "../../operations/claim/claim-sandbox.ts";
import type { Attempts, SlowStart } from "../cluster/attempts.ts";
import type { CellParts, ClusterParts, ControllerParts, DataParts, ProcessParts } from "../cluster/controller-parts.ts";

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

/** The record of one process about a claim that is not completed. */
export class Pursuit {
  /** The start of the claim, unless its status has an earlier one. */
  readonly since: Date;
  /** When this process first saw the claim. */
  readonly seenAt: Date;
  /** Ordinals with an attempt whose sandbox the cache does not show yet. */
  readonly ordinals = new Set<number>();
  /** Stops the wait for ready sandboxes. */
  readonly abort = new AbortController();
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #failed = new Set<string>();
  #notBefore = 0;

  constructor(clock: Clock, random: () => number, since: Date) {
    this.since = since;
    this.seenAt = clock.now();
    this.#clock = clock;
    this.#random = random;
  }

  /** Each failure lengthens the pause before the next attempt, so that a template that cannot start is not tried without limit. */
  noteFailed(uids: readonly string[]): void {
    const fresh = uids.filter((uid) => !this.#failed.has(uid));
    if (fresh.length === 0) return;
    const pause = backoffMilliseconds(pauses, this.#failed.size, this.#random);
    for (const uid of fresh) this.#failed.add(uid);
    this.#notBefore = this.#clock.monotonicMilliseconds() + pause;
  }

  get pauseMilliseconds(): number {
    return Math.max(0, Math.ceil(this.#notBefore - this.#clock.monotonicMilliseconds()));
  }
}

const pauses = { baseMilliseconds: 500, maxMilliseconds: 30_000 };

/**
 * The lock of the n-th sandbox of a claim, in the form of a UUID. It is deterministic: a controller that repeats an interrupted
 * attempt finds the sandbox of that attempt and does not claim a second one.
 */
export function ordinalLock(claimUid: string, ordinal: number): string {
  return uuidOf(`${claimUid}/${ordinal}`);
}
