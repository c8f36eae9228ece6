import { findIgnored } from "../../api/fields/find-ignored.ts";
import { type Checkpoint, type CheckpointStatus, dataAvailable, withinQuota } from "../../api/kinds/checkpoint.ts";
import type { VolumeClaim } from "../../api/pod/volume-claims.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { leftOutNotes, type PendingReason } from "../../api/state/checkpoint.ts";
import { problemOf } from "../../api/state/problem.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import {
  type ConditionChange,
  findCondition,
  report,
  setCondition,
  stalled,
  withIgnoredFields,
} from "../../kube/conditions.ts";
import { keyOf } from "../../kube/object.ts";
import type { DataFinding } from "../cluster/data-findings.ts";
import { listed } from "../volumes/restored-volumes.ts";
import type { CheckpointDependencies, CheckpointPlan, CheckpointState } from "./state.ts";

/** Writes the status of a plan, and records its transitions. */
export async function writeStatus(
  checkpoint: Checkpoint,
  { status, transitions = [] }: Pick<CheckpointPlan, "status" | "transitions">,
  { statuses, ownWrites, events }: Pick<CheckpointDependencies, "statuses" | "ownWrites" | "events">,
): Promise<void> {
  if (status === undefined) return;
  await ownWrites.write(checkpoint, () => statuses.write(checkpoint, status));
  for (const transition of transitions) events.record(checkpoint, transition);
}

/** Writes a phase that is informative only: a failed write is logged, and stops nothing. */
export async function writePhase(
  checkpoint: Checkpoint,
  status: CheckpointStatus,
  dependencies: CheckpointDependencies,
): Promise<void> {
  await writeStatus(checkpoint, { status }, dependencies).catch((error: unknown) => {
    const { message } = RametError.from(error);
    dependencies.log.debug({ checkpoint: keyOf(checkpoint.metadata), error: message }, "status not written");
  });
}

/** Reports that a capture or an import has started. */
export async function writeCreating(
  { checkpoint, checkpointId }: Pick<CheckpointState, "checkpoint" | "checkpointId">,
  dependencies: CheckpointDependencies,
): Promise<void> {
  if (checkpoint.status?.phase === "Creating") return;
  const status = { ...checkpoint.status, phase: "Creating" as const, checkpointId };
  await writePhase(checkpoint, report(status, [notReady("Creating")], { now: dependencies.clock.now() }), dependencies);
}

/** The condition of a checkpoint that cannot be cloned yet, or not any more. */
export function notReady(reason: "Creating" | "Terminating"): ConditionChange {
  const message = reason === "Creating" ? "It is being captured" : "It is being deleted";
  return { type: "Ready", status: "False", reason, message };
}

/** @param first the checkpoint of the sandbox that is captured before. @default none; the sandbox is not ready */
export function waiting(state: CheckpointState, first?: string): CheckpointPlan {
  const after = first === undefined ? "the sandbox is Ready" : `${first} has finished`;
  return pending(state, "Waiting", `It is captured when ${after}`);
}

/** Its capture has not begun. */
export function pending({ checkpoint, now }: CheckpointState, reason: PendingReason, message: string): CheckpointPlan {
  const status = { ...checkpoint.status, phase: "Pending" as const };
  return { actions: [], status: report(status, [{ type: "Ready", status: "False", reason, message }], { now }) };
}

/** The capture is complete, and its data is in the store. */
export function succeeded(state: CheckpointState, record: CheckpointRecord): CheckpointPlan {
  const { checkpoint, checkpointId, secrets, now } = state;
  const known = withVolumes(state, record);
  const leftOut = leftOutNotes(record.parts);
  return {
    actions: [],
    status: report(
      {
        ...withoutMessage(checkpoint),
        phase: "Succeeded",
        checkpointId,
        completionTime: checkpoint.status?.completionTime ?? now.toISOString(),
        ...defined({ conditions: known?.conditions }),
        ramet: { ...(known?.ramet ?? record), ...(secrets.length > 0 && { secrets }) },
      },
      [cloneable],
      { now },
    ),
    transitions: [
      {
        type: "Normal",
        reason: "CheckpointSucceeded",
        action: "Checkpoint",
        note: `The checkpoint id is ${checkpointId}`,
      },
      ...leftOut.map((note) => ({ type: "Warning", reason: "DevicesLeftOut", action: "Checkpoint", note }) as const),
    ],
  };
}

function withoutMessage({ status }: CheckpointState["checkpoint"]) {
  const { message: _, ...others } = status ?? {};
  return others;
}

/** The capture has ended without data. */
export function failed({ checkpoint, checkpointId, now }: CheckpointState, error: RametError): CheckpointPlan {
  const message = error.describe();
  const completionTime = checkpoint.status?.completionTime ?? now.toISOString();
  const exceeded = { type: withinQuota, status: "False", reason: error.code, message } as const;
  return {
    actions: [],
    status: report(
      { ...checkpoint.status, phase: "Failed", message, checkpointId, completionTime },
      [...stalled(message, problemOf(error)), ...(error.code === "QuotaExceeded" ? [exceeded] : [])],
      { now },
    ),
    transitions: [{ type: "Warning", reason: "CheckpointFailed", action: "Checkpoint", note: message }],
  };
}

/** The data is being removed. */
export function terminating({ checkpoint, now }: Pick<CheckpointState, "checkpoint" | "now">): CheckpointStatus {
  const status = { ...checkpoint.status, phase: "Terminating" as const };
  return report(status, [notReady("Terminating")], { now, drop: ["Stalled"] });
}

/** Names the fields without effect in a status that is written anyway: the spec never changes. */
export function withIgnored({ checkpoint, now }: CheckpointState, plan: CheckpointPlan): CheckpointPlan {
  const { status } = plan;
  const conditions = status && withIgnoredFields(status.conditions, findIgnored("Checkpoint", checkpoint), now);
  return conditions?.length ? { ...plan, status: { ...status, conditions } } : plan;
}

/** The condition of a finished checkpoint whose source has PersistentVolumeClaims. */
const volumesCaptured = "VolumesCaptured";

/**
 * The conditions and the record of a checkpoint whose source has claims: whether the checkpoint has the data of all of them, and
 * which it has not. Undefined: the source has none.
 */
export function withVolumes(
  { checkpoint, volumes, now }: { checkpoint: Checkpoint; volumes: VolumeClaim[]; now: Date },
  record: CheckpointRecord,
): { conditions: Condition[]; ramet: CheckpointRecord } | undefined {
  if (volumes.length === 0) return undefined;
  const parts = record.parts.flatMap(({ volume }) => volume ?? []);
  // A claim of several volumes is captured once, and the data of another sandbox's checkpoint is of another claim.
  const isCaptured = (one: VolumeClaim) =>
    parts.some(({ volume, claim }) => volume === one.volume || claim === one.claim);
  const hasAll = record.parts.some(({ contents, volume }) => contents.includes("volumes") && volume === undefined);
  const missing = hasAll ? [] : volumes.filter((one) => !isCaptured(one));
  const conditions = setCondition(
    checkpoint.status?.conditions ?? [],
    missing.length === 0 ? allCaptured : notCaptured(missing),
    now,
  );
  if (missing.length === 0) return { conditions, ramet: record };
  // The parts keep their consistency. There is none between them and volumes that continue to change.
  const { consistency: _, ...ramet } = record;
  return { conditions, ramet: { ...ramet, volumes: missing } };
}

const allCaptured = {
  type: volumesCaptured,
  status: "True",
  reason: "Captured",
  message: "The checkpoint has the data of all PersistentVolumeClaims of its source",
} as const;

function notCaptured(missing: readonly VolumeClaim[]) {
  return {
    type: volumesCaptured,
    status: "False",
    reason: "NotRequested",
    message:
      `The data of the PersistentVolumeClaims ${listed(missing.map(({ claim }) => claim))} is not in the checkpoint, ` +
      "because neither persistentContents nor volumes select them; only the parts in status.ramet.parts are restored",
  } as const;
}

/**
 * Reports a finding about the data of a checkpoint in a condition, and never in the phase. Undefined: the condition says it already,
 * or there was never a problem. That the data is in the store again does not tell whether it is still damaged.
 */
export function planData(
  { status }: Checkpoint,
  finding: DataFinding | undefined,
  now: Date,
): Pick<CheckpointPlan, "status" | "transitions"> | undefined {
  const known = findCondition(status?.conditions, dataAvailable);
  const condition = finding && conditionOf(finding, known);
  if (condition === undefined || (known?.reason === condition.reason && known.message === condition.message))
    return undefined;
  const { reason, message = "", problem } = condition;
  const type = condition.status === "True" ? ("Normal" as const) : ("Warning" as const);
  const transition = { type, reason, action: "CheckData", note: message };
  const readiness = problem === undefined ? [cloneable] : stalled(message, problem, reason);
  return {
    status: report({ ...status }, [condition, ...readiness], { now, drop: ["Stalled"] }),
    ...(reason !== known?.reason && { transitions: [transition] }),
  };
}

function conditionOf(finding: DataFinding, known: Condition | undefined): ConditionChange | undefined {
  const lacks = { type: dataAvailable, status: "False" } as const;
  switch (finding.state) {
    case "missing":
      return { ...lacks, reason: "DataMissing", message: missing.describe(), problem: problemOf(missing) };
    case "damaged": {
      const { error } = finding;
      return { ...lacks, reason: "DataDamaged", message: error.describe(), problem: problemOf(error) };
    }
    case "present":
      return known?.reason === "DataMissing" ? found : undefined;
    case "restored":
      return known?.status === "False" ? found : undefined;
  }
}

const cloneable: ConditionChange = {
  type: "Ready",
  status: "True",
  reason: "Succeeded",
  message: "It can be cloned",
};

const missing = new RametError(
  "CheckpointLost",
  "The data of the checkpoint is not in the store: it was removed, or the store's file system is not mounted",
  { hint: "Restore the content of the store, or delete the Checkpoint and capture its source again" },
);

const found = {
  type: dataAvailable,
  status: "True",
  reason: "DataFound",
  message: "The data of the checkpoint is in the store again",
} as const;
