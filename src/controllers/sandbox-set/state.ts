import type { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxSet, SandboxSetStatus } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { SetRevision } from "../../api/set/set-revision.ts";
import type { Transition } from "../../kube/events.ts";
import type { Bounds } from "./bounds.ts";
import type { Backoff } from "./failures.ts";

/** All that a decision about one set is made from. */
export interface SetState {
  set: SandboxSet;
  /** What new sandboxes are made from, or why none can be made. */
  revision: SetRevision | { problem: RametError };
  bounds: Bounds | { problem: RametError };
  /** The sandboxes that the set owns. A claimed one has another owner. */
  members: Member[];
  /** Sandboxes that this process created, of each revision, that its cache does not show yet. */
  unseen: Unseen[];
  /** Whether a deletion that this process asked for is not shown by its cache yet. */
  deletionsUnseen: boolean;
  /** For how long the refill gives way to a clone in a sandbox of this set, which somebody waits for. 0: for none. */
  givesWayMilliseconds: number;
  /** The SandboxTemplates that were written out for this set. */
  templates: SandboxTemplate[];
  backoff: Backoff;
  now: Date;
}

export interface Unseen {
  revisionHash: string;
}

export interface Member {
  sandbox: Sandbox;
  state: MemberState;
  revisionHash: string | undefined;
}

/**
 * `creating` and `available` ones make up the pool. `used`: somebody else's while the set is still named as owner, so never
 * touched. `dead`: has ended. `victim`: locked by a set's controller that then died. `leaving`: is being deleted.
 */
export type MemberState = "creating" | "available" | "used" | "dead" | "victim" | "leaving";

export type SetAction =
  | { do: "writeTemplate"; revision: SetRevision }
  | { do: "markTemplate"; template: SandboxTemplate; candidate: boolean }
  | { do: "create"; count: number; revision: SetRevision }
  /** Locks the sandbox against claims, and deletes it. */
  | { do: "retire"; sandbox: Sandbox; why: "scaleDown" | "update" }
  | { do: "remove"; sandbox: Sandbox; why: "dead" | "victim" };

export interface SetPlan {
  actions: SetAction[];
  status: SandboxSetStatus;
  transitions: Transition[];
  requeueAfterMilliseconds?: number;
}
