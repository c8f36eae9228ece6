import { describeStep } from "../../api/recipe/recipe.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type {
  NamedSnapshotStatus,
  SnapshotBuild,
  SnapshotStep,
  SnapshotVersion,
} from "../../api/kinds/named-snapshot-status.ts";
import type { ObjectName, Problem } from "../../api/schema/problem.ts";
import { buildFailures } from "../../api/state/named-snapshot.ts";
import { printProblem } from "../../api/state/problem.ts";
import { memoryPart } from "../../backends/checkpoint-record.ts";
import { defined } from "../../base/defined.ts";
import { applied, type ConditionChange, withIgnoredFields } from "../../kube/conditions.ts";
import { engineCondition } from "./engine-upgrade.ts";
import type { BuildingReason, SnapshotState, DesiredVersion } from "./state.ts";

export interface Building {
  status: "True" | "False";
  reason: BuildingReason;
  /** @default that of the problem */
  message?: string;
  problem?: Problem | undefined;
  /** The object of which the build waits for a change. */
  waitsFor?: ObjectName;
}

type Facts = Pick<SnapshotState, "snapshot" | "desired" | "engines" | "ignored" | "now">;

/** A complete status with the conditions. */
export function withStatus(state: Facts, desired: NamedSnapshotStatus, given: Building): NamedSnapshotStatus {
  const { message: _, problems: before, build, ...status } = desired;
  const building = { ...given, message: given.message ?? (given.problem ? printProblem(given.problem) : "") };
  const { waitsFor, ...condition } = building;
  const message = building.reason === "Built" ? "" : building.message;
  const { conditions, problems } = applied(withIgnoredFields(status.conditions, state.ignored, state.now), before, {
    changes: [
      ready(status),
      { type: "Building", ...condition },
      engineCondition(state, desired),
      progressCondition(desired, building),
    ].filter((change) => change !== undefined),
    drop: ["Reconciling", "Stalled"],
    now: state.now,
  });
  return {
    ...status,
    ...(build && { build: withWait(build, waitsFor) }),
    ...(message !== "" && { message }),
    conditions,
    ...defined({ problems }),
  };
}

function withWait({ waitsFor: _, ...build }: SnapshotBuild, waitsFor: ObjectName | undefined): SnapshotBuild {
  return waitsFor === undefined ? build : { ...build, waitsFor };
}

/**
 * `Reconciling` while the version of the spec is being built, `Stalled` if somebody has to do something first. Undefined: the spec is
 * fulfilled. It is during an upgrade too, whose version stays usable.
 */
function progressCondition(desired: NamedSnapshotStatus, building: Building): ConditionChange | undefined {
  const { status, reason, message = "", problem } = building;
  if (reason === "Built" || reason === "Deleting") return undefined;
  if (desired.version !== undefined && (isHeld(building) || isUpgrade(desired, building))) return undefined;
  const isComing = status === "True" || (problem !== undefined && passing.has(problem.code));
  return { type: isComing ? "Reconciling" : "Stalled", status: "True", reason, message };
}

/** A pinned version that does not exist is not held. */
function isHeld({ reason, problem }: Building): boolean {
  return (reason === "Suspended" || reason === "Pinned") && problem?.code !== "NotFound";
}

function isUpgrade({ build }: NamedSnapshotStatus, { status, reason }: Building): boolean {
  return build?.upgrade !== undefined && (status === "True" || buildFailures.has(reason));
}

/** The source is being built, or a server does not answer for the moment. */
const passing: ReadonlySet<string> = new Set(["CheckpointNotReady", "Unavailable", "Timeout"]);

/** Sets the fields of the current version, or removes them if there is none. */
export function pointer(status: NamedSnapshotStatus, current: SnapshotVersion | undefined): NamedSnapshotStatus {
  const { version: _version, digest: _digest, checkpointId: _id, ...rest } = status;
  if (current === undefined) return rest;
  const { version, digest, checkpointId } = current;
  return { ...rest, version, digest, checkpointId };
}

function ready({ version, versions = [] }: NamedSnapshotStatus): ConditionChange {
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

/** What the Checkpoint of a version says of it. */
export function measured({
  status,
}: Checkpoint): Pick<SnapshotVersion, "sizeBytes" | "engine" | "layers" | "randomPrograms"> {
  const { sizeBytes, engine, parts = [] } = status?.ramet ?? {};
  const { randomPrograms } = memoryPart(parts) ?? {};
  return defined({ sizeBytes, engine, layers: parts.some((part) => part.layers !== undefined), randomPrograms });
}
