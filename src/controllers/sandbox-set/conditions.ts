import { fieldsIgnored } from "../../api/fields/ignored-condition.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { findCondition, setCondition } from "../../kube/conditions.ts";
import type { Transition } from "../../kube/events.ts";
import { withIgnoredFields } from "../cluster/ignored-fields.ts";
import type { Pool } from "./pool.ts";
import type { SetState } from "./state.ts";

/**
 * `Ready`: whether `replicas` sandboxes are available, and if not, why.
 * `Updated`: whether all sandboxes are of the set's current revision.
 * `FieldsIgnored`: names the fields without effect.
 */
export function conditionsOf(state: SetState, pool: Pool): Condition[] {
  const { set, ignored, now } = state;
  const desired = [readyCondition(state, pool), ...updatedCondition(state, pool)];
  return desired.reduce<Condition[]>(
    (all, condition) => setCondition(all, condition, now),
    withIgnoredFields(set.status?.conditions, ignored, now),
  );
}

type DesiredVersion = Omit<Condition, "lastTransitionTime">;

function readyCondition(state: SetState, pool: Pool): DesiredVersion {
  const { revision, bounds, backoff } = state;
  const no = (reason: string, message: string): DesiredVersion => ({ type: "Ready", status: "False", reason, message });
  if ("problem" in revision) return no(revision.problem.code, revision.problem.describe());
  if ("problem" in bounds) return no(bounds.problem.code, bounds.problem.describe());
  if (pool.available >= pool.replicas) return { type: "Ready", status: "True", reason: "Available", message: "" };
  if (backoff.inARow > 1 || backoff.isConclusive) return no("StartFailing", failingMessage(state));
  return no("Filling", fillingMessage(state, pool));
}

function failingMessage({ backoff }: SetState): string {
  const { inARow, message, waitMilliseconds, nextAt } = backoff;
  const waits = waitMilliseconds > 0 && nextAt !== undefined;
  const next = waits
    ? `the next attempt is at ${nextAt.toISOString().replace(/\.\d+Z$/, "Z")}`
    : "the next attempt is running";
  const times = inARow === 1 ? "Once" : `${inARow} times in a row`;
  return (
    `${times} a sandbox ended before it was claimed, or could not be created; ${next}. Correct the ` +
    `template to retry immediately. The last failure: ${message}`
  );
}

function fillingMessage({ members }: SetState, { available, replicas }: Pool): string {
  const counts = `${available} of ${replicas} sandboxes are available`;
  const stuck = members.find(({ sandbox, state }) => state === "creating" && whyNotReady(sandbox.status) !== undefined);
  return stuck === undefined
    ? counts
    : `${counts}; ${stuck.sandbox.metadata.name}: ${whyNotReady(stuck.sandbox.status) ?? ""}`;
}

function whyNotReady(status: { conditions?: Condition[] | undefined } | undefined): string | undefined {
  const ready = findCondition(status?.conditions, "Ready");
  return ready?.status === "False" && ready.message !== "" ? ready.message : undefined;
}

/** Absent while the current revision is unknown. */
function updatedCondition({ revision }: SetState, { total, updated }: Pool): DesiredVersion[] {
  if ("problem" in revision) return [];
  if (updated === total) return [{ type: "Updated", status: "True", reason: "AllUpdated", message: "" }];
  const message = `${total - updated} of ${total} sandboxes are of an earlier revision than ${revision.hash}`;
  return [{ type: "Updated", status: "False", reason: "RollingUpdate", message }];
}

/** Events for problems and rolls. Replacing a claimed sandbox is not worth an event. */
export function transitionsOf(before: Condition[] | undefined, after: Condition[]): Transition[] {
  return after.flatMap((condition) => {
    const known = findCondition(before, condition.type);
    if (known?.reason === condition.reason) return [];
    return transitionTo(condition, known);
  });
}

function transitionTo({ type, reason, message }: Condition, known: Condition | undefined): Transition[] {
  if (type === fieldsIgnored) return [];
  const event = (kind: Transition["type"], note: string): Transition[] => [
    { type: kind, reason, action: "Reconcile", note },
  ];
  if (type === "Updated") {
    if (reason === "RollingUpdate") return event("Normal", message);
    return known === undefined ? [] : event("Normal", "All sandboxes are of the current revision");
  }
  const wasQuiet = known === undefined || quiet.has(known.reason);
  if (!quiet.has(reason)) return event("Warning", message);
  return wasQuiet ? [] : event("Normal", "Sandboxes start again");
}

const quiet: ReadonlySet<string> = new Set(["Available", "Filling"]);
