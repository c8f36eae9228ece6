import type { FoundField } from "../../api/fields/find-ignored.ts";
import type { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxSet, SandboxSetStatus } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { SetRevision } from "../../api/set/set-revision.ts";
import type { Transition } from "../../kube/events.ts";
import type { Bounds } from "./rollout-bounds.ts";
import type { Backoff } from "./failures.ts";

export interface SetState {
  set: SandboxSet;
  /** The source of new sandboxes, or why none can be created. */
  revision: SetRevision | { problem: RametError };
  /** Hashes of revisions that differ from the current one only by the engine of the memory that fills the set. */
  sameContent: ReadonlySet<string>;
  bounds: Bounds | { problem: RametError };
  /** The sandboxes that the set owns. Claimed ones have another owner. */
  members: Member[];
  /** Sandboxes that this process created and its cache does not show yet. */
  unseen: Unseen[];
  /** Whether the cache does not show a deletion by this process yet. */
  deletionsUnseen: boolean;
  /** The SandboxTemplates written for revisions of this set. */
  templates: SandboxTemplate[];
  backoff: Backoff;
  /** The fields without effect. */
  ignored: FoundField[];
  now: Date;
}

export interface Unseen {
  revisionHash: string;
}

export interface Member {
  sandbox: Sandbox;
  state: MemberState;
  revisionHash: string | undefined;
  /** Whether it was started in an earlier cell image than new sandboxes are. */
  hasOldEngine: boolean;
}

/**
 * `creating` and `available` sandboxes form the pool. `used`: in use although the set is still its owner, so never changed.
 * `dead`: ended. `victim`: locked for deletion by a controller that then stopped. `leaving`: being deleted.
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
