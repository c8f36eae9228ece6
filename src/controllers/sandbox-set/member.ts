import { annotations, labels, scaleDownOwner } from "../../api/names/labels.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { isConditionTrue } from "../../kube/conditions.ts";
import type { Member, MemberState } from "./state.ts";

/** A sandbox as its set sees it. @param isLeaving whether this process has asked for its deletion */
export function memberOf(sandbox: Sandbox, isLeaving: boolean): Member {
  const state = isLeaving ? "leaving" : stateOf(sandbox);
  return { sandbox, state, revisionHash: sandbox.metadata.labels?.[labels.templateHash] };
}

function stateOf(sandbox: Sandbox): MemberState {
  const { metadata, status } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return "leaving";
  if (metadata.annotations?.[annotations.owner] === scaleDownOwner) return "victim";
  if (isTaken(sandbox)) return "used";
  if (ends.has(status?.phase ?? "")) return "dead";
  return status?.phase === "Running" && isConditionTrue(status.conditions, "Ready") ? "available" : "creating";
}

/** A lock means "taken", whoever wrote it; a paused or kept one is in somebody's hands too. */
function isTaken({ metadata, spec, status }: Sandbox): boolean {
  return (
    metadata.annotations?.[annotations.lock] !== undefined ||
    metadata.labels?.[labels.sandboxClaimed] === "true" ||
    metadata.labels?.[labels.reservedFailedSandbox] !== undefined ||
    spec.paused === true ||
    inHands.has(status?.phase ?? "")
  );
}

const ends: ReadonlySet<string> = new Set(["Succeeded", "Failed", "Terminating"]);
/** No set brings its sandboxes there. */
const inHands: ReadonlySet<string> = new Set(["Paused", "Resuming", "Upgrading", "Recycling"]);
