import { describeStep } from "../../api/recipe/recipe.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { NamedSnapshotStatus, SnapshotStep, SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import { setCondition } from "../../kube/conditions.ts";
import { withIgnoredFields } from "../cluster/ignored-fields.ts";
import { engineCondition } from "./engine-upgrade.ts";
import type { BuildingReason, SnapshotState, DesiredVersion } from "./state.ts";

export interface Building {
  status: "True" | "False";
  reason: BuildingReason;
  message: string;
}

type Facts = Pick<SnapshotState, "snapshot" | "desired" | "engines" | "ignored" | "now">;

/** A complete status with the conditions. */
export function withStatus(state: Facts, desired: NamedSnapshotStatus, building: Building): NamedSnapshotStatus {
  const { message: _, ...status } = desired;
  const message = building.reason === "Built" ? "" : building.message;
  return {
    ...status,
    ...(message !== "" && { message }),
    conditions: [ready(status), { type: "Building", ...building }, engineCondition(state, status)]
      .filter((condition) => condition !== undefined)
      .reduce<Condition[]>(
        (all, condition) => setCondition(all, condition, state.now),
        withIgnoredFields(status.conditions, state.ignored, state.now),
      ),
  };
}

/** Sets the fields of the current version, or removes them if there is none. */
export function pointer(status: NamedSnapshotStatus, current: SnapshotVersion | undefined): NamedSnapshotStatus {
  const { version: _version, digest: _digest, checkpointId: _id, ...rest } = status;
  if (current === undefined) return rest;
  const { version, digest, checkpointId } = current;
  return { ...rest, version, digest, checkpointId };
}

function ready({ version, versions = [] }: NamedSnapshotStatus): Omit<Condition, "lastTransitionTime"> {
  if (version !== undefined) {
    return { type: "Ready", status: "True", reason: "VersionReady", message: `Version ${version} is current` };
  }
  const kept = versions.map((one) => one.version).join(", ");
  const message = kept === "" ? "No version has been built yet" : `None of the kept versions (${kept}) is current`;
  return { type: "Ready", status: "False", reason: "NoVersion", message };
}

/** The steps of a new build, of which the state it starts from contains the first `done`. */
export function freshSteps(
  { snapshot }: Pick<SnapshotState, "snapshot">,
  desired: DesiredVersion,
  done: number,
): SnapshotStep[] {
  return snapshot.spec.recipe.map((step, index) => ({
    digest: desired.digest.steps[index] ?? "",
    step: describeStep(step),
    state: index < done ? "Succeeded" : "Pending",
    cached: index < done,
  }));
}

export function progressOf(steps: readonly SnapshotStep[]): string {
  return `${steps.filter(({ state }) => state === "Succeeded").length}/${steps.length}`;
}
