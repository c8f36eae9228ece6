import { type Checkpoint, dataAvailable } from "../../api/kinds/checkpoint.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition, setCondition } from "../../kube/conditions.ts";
import type { DataFinding } from "../cluster/data-findings.ts";
import type { CheckpointPlan } from "./state.ts";

/**
 * Reports a finding about the data of a checkpoint in a condition, and never in the phase. Undefined: the condition says it already,
 * or there was never a problem. That the data is in the store again does not tell whether it is still damaged.
 */
export function planData(
  { status }: Checkpoint,
  finding: DataFinding | undefined,
  now: Date,
): Pick<CheckpointPlan, "status" | "transitions"> | undefined {
  const before = status?.conditions ?? [];
  const known = findCondition(before, dataAvailable);
  const condition = finding && conditionOf(finding, known);
  const conditions = condition === undefined ? before : setCondition(before, condition, now);
  if (condition === undefined || conditions === before) return undefined;
  const isNews = condition.reason !== known?.reason;
  const type = condition.status === "True" ? ("Normal" as const) : ("Warning" as const);
  const transition = { type, reason: condition.reason, action: "CheckData", note: condition.message };
  return { status: { ...status, conditions }, ...(isNews && { transitions: [transition] }) };
}

function conditionOf(
  finding: DataFinding,
  known: Condition | undefined,
): Omit<Condition, "lastTransitionTime"> | undefined {
  const lacks = { type: dataAvailable, status: "False" } as const;
  switch (finding.state) {
    case "missing":
      return { ...lacks, reason: "DataMissing", message: missing.describe() };
    case "damaged":
      return { ...lacks, reason: "DataDamaged", message: finding.message };
    case "present":
      return known?.reason === "DataMissing" ? found : undefined;
    case "restored":
      return known?.status === "False" ? found : undefined;
  }
}

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
