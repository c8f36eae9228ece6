import { fieldsIgnored } from "../../api/fields/find-ignored.ts";
import type { SandboxSetStatus } from "../../api/kinds/sandbox-set.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemOf, reportedBy, within } from "../../api/state/problem.ts";
import type { Clock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import type { RametError } from "../../base/errors.ts";
import { type ConditionChange, findCondition, report, stalled, withIgnoredFields } from "../../kube/conditions.ts";
import type { Transition } from "../../kube/events.ts";
import type { Pool, SetState } from "./state.ts";

/**
 * `Ready`: whether `replicas` sandboxes are available, and if not, why.
 * `Updated`: whether all sandboxes are of the set's current revision.
 * `FieldsIgnored`: names the fields without effect.
 */
export function reported(state: SetState, pool: Pool): Pick<SandboxSetStatus, "conditions" | "ramet"> {
  const { set, ignored, now } = state;
  const { ramet, conditions } = set.status ?? {};
  const before = { conditions: withIgnoredFields(conditions, ignored, now), ...defined({ ramet }) };
  const changes = [...readyConditions(state, pool), ...updatedCondition(state, pool)];
  return report(before, changes, { now, drop: ["Stalled"] });
}

function readyConditions(state: SetState, pool: Pool): ConditionChange[] {
  const { revision, bounds, backoff } = state;
  if ("problem" in revision) return rejected(revision.problem);
  if ("problem" in bounds) return rejected(bounds.problem);
  if (pool.available >= pool.replicas) return [{ type: "Ready", status: "True", reason: "Available" }];
  if (backoff.inARow > 1 || backoff.isConclusive) {
    const { problem = { code: "StartFailing", cause: backoff.message } } = backoff;
    const retryAt = waitsUntil(state);
    return stalled(failingMessage(state), { ...problem, ...defined({ retryAt }) }, "StartFailing");
  }
  const { message, problem } = filling(state, pool);
  return [{ type: "Ready", status: "False", reason: "Filling", message, problem }];
}

/** A named snapshot without a version is being built; all else waits for somebody. */
function rejected(error: RametError): ConditionChange[] {
  const problem = problemOf(error);
  const [ready, lasting] = stalled(error.describe(), problem);
  const isComing = error.retryable || error.code === "CheckpointNotReady";
  return isComing ? [ready] : [ready, lasting];
}

function waitsUntil({ backoff: { waitMilliseconds, nextAt } }: SetState): string | undefined {
  return waitMilliseconds > 0 ? nextAt?.toISOString().replace(/\.\d+Z$/, "Z") : undefined;
}

function failingMessage(state: SetState): string {
  const { inARow, message } = state.backoff;
  const nextAt = waitsUntil(state);
  const next = nextAt === undefined ? "the next attempt is running" : `the next attempt is at ${nextAt}`;
  const times = inARow === 1 ? "Once" : `${inARow} times in a row`;
  return (
    `${times} a sandbox ended before it was claimed, or could not be created; ${next}. Correct the ` +
    `template to retry immediately. The last failure: ${message}`
  );
}

/** With the first sandbox that reports why it is not ready. */
function filling({ members }: SetState, { available, replicas }: Pool): { message: string; problem?: Problem } {
  const counts = `${available} of ${replicas} sandboxes are available`;
  for (const { sandbox, state } of members) {
    const ready = findCondition(sandbox.status?.conditions, "Ready");
    if (state !== "creating" || ready?.status !== "False" || ready.message === "") continue;
    const { name } = sandbox.metadata;
    const problem = within(reportedBy(sandbox.status, ready), `${counts}; ${name}`);
    return {
      message: `${counts}; ${name}: ${ready.message}`,
      problem: { ...problem, object: { kind: "Sandbox", name } },
    };
  }
  return { message: counts };
}

/** Absent while the current revision is unknown. */
function updatedCondition({ revision }: SetState, { total, updated }: Pool): ConditionChange[] {
  if ("problem" in revision) return [];
  if (updated === total) return [{ type: "Updated", status: "True", reason: "AllUpdated" }];
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
  if (type === fieldsIgnored || type === "Stalled") return [];
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

/**
 * Limits status writes: changes of conditions and revisions are written immediately, changes of counts at most four times a
 * second. Hundreds of sandboxes that become ready one after another then cost only a few writes.
 */
export class StatusPace {
  readonly #clock: Clock;
  readonly #lastAt = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until `desired` may be written; 0: now. */
  millisecondsUntil(uid: string, known: SandboxSetStatus | undefined, desired: SandboxSetStatus): number {
    const lastAt = this.#lastAt.get(uid);
    if (lastAt === undefined || withoutCounts(known) !== withoutCounts(desired)) return 0;
    return Math.max(0, lastAt + paceMilliseconds - this.#clock.monotonicMilliseconds());
  }

  written(uid: string): void {
    this.#lastAt.set(uid, this.#clock.monotonicMilliseconds());
  }

  forget(uid: string): void {
    this.#lastAt.delete(uid);
  }
}

const paceMilliseconds = 250;

/** Everything except counts, which are also in condition messages. */
function withoutCounts(status: SandboxSetStatus | undefined): string {
  const conditions = status?.conditions?.map(({ type, reason, status: is }) => [type, reason, is]);
  return JSON.stringify([status?.updateRevision, status?.currentRevision, status?.selector, conditions]);
}
