import type { namedSnapshotConditions, SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import { annotations } from "../../api/names/labels.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemOf, sentenceOf, within } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import type { ConditionChange } from "../../kube/conditions.ts";
import type { SnapshotState } from "./state.ts";

type Facts = Pick<SnapshotState, "snapshot" | "desired" | "engines">;

interface Obstacle {
  reason: (typeof namedSnapshotConditions)["EngineCurrent"][number];
  message: string;
  problem: Problem;
}

function obstacle(reason: Obstacle["reason"], cause: string, hint?: string): Obstacle {
  const problem = defined({ code: reason, cause, hint });
  return { reason, message: sentenceOf(problem), problem };
}

/** Whether a kept version has memory of another engine than that of new sandboxes. */
export function isEarlier({ engines }: Facts, { checkpointName }: SnapshotVersion): boolean {
  return engines.earlier.has(checkpointName);
}

/** Why a version of an earlier engine is not captured again now. Undefined: it is. */
export function upgradeObstacle(state: Facts, kept: SnapshotVersion): Obstacle | undefined {
  const { snapshot, desired, engines } = state;
  const { pinnedVersion, suspend, from } = snapshot.spec;
  if (pinnedVersion !== undefined) {
    return obstacle("Pinned", "It is pinned", "Remove spec.pinnedVersion to capture it again");
  }
  if ("problem" in desired) {
    return { reason: "InputMissing", message: desired.problem.describe(), problem: problemOf(desired.problem) };
  }
  if (desired.digest.digest !== kept.digest) {
    return obstacle("VersionOutdated", "The next version has the current engine");
  }
  if (suspend === true) {
    return obstacle("Suspended", "Builds are suspended", "Remove spec.suspend to capture it again");
  }
  if (engines.source === "bound") {
    const cause = `It cannot be captured again, because its source is memory of an earlier engine: ${sourceOf(from)}`;
    const hint = "Give it a template, or a named snapshot with the current engine, as its source";
    return obstacle("SourceBound", cause, hint);
  }
  if (engines.source === "waiting") {
    return obstacle("SourceUpgrading", `It waits until ${sourceOf(from)} is captured again`);
  }
  if (isManual(state, kept)) {
    const { name, namespace } = snapshot.metadata;
    const hint = `Capture it again with: ramet snapshot build ${name} -n ${namespace}`;
    return obstacle("ManualUpgrade", "Its engineUpgrade is Manual", hint);
  }
  return engines.wait === undefined ? undefined : obstacle("UpgradeWaiting", engines.wait);
}

/** A request that is newer than the last build is a request for the upgrade. */
function isManual({ snapshot, engines }: Facts, { version }: SnapshotVersion): boolean {
  if (snapshot.spec.engineUpgrade === "Auto") return false;
  const { build } = snapshot.status ?? {};
  const request = snapshot.metadata.annotations?.[annotations.buildRequest];
  const isRequested = request !== undefined && request !== build?.request;
  return !isRequested && !(build?.upgrade?.of === version && build.upgrade.cellImage === engines.cellImage);
}

function sourceOf(from: Facts["snapshot"]["spec"]["from"]): string {
  const { snapshot, sandbox, checkpoint } = from;
  if (snapshot !== undefined) return `the named snapshot ${snapshot.name}`;
  return sandbox === undefined ? `the checkpoint ${checkpoint?.id ?? ""}` : `the sandbox ${sandbox.name}`;
}

/** The condition `EngineCurrent`. Undefined: nothing is known, or the snapshot has never had an earlier engine. */
export function engineCondition(
  state: Facts,
  { version, versions = [], build, conditions = [] }: NamedSnapshotStatus,
): ConditionChange | undefined {
  const current = versions.find((one) => one.version === version);
  if (current === undefined) return undefined;
  const type = "EngineCurrent";
  if (!isEarlier(state, current)) {
    if (!conditions.some((one) => one.type === type)) return undefined;
    return { type, status: "True", reason: "EngineCurrent", message: "The version has the engine of new sandboxes" };
  }
  const is = `Version ${current.version} has the engine ${current.engine ?? ""} of another cell image, and remains usable`;
  const { reason, message, problem } = upgradeObstacle(state, current) ?? progressOf(build, current);
  return { type, status: "False", reason, message: `${is}. ${message}`, problem: within(problem, is) };
}

function progressOf(build: NamedSnapshotStatus["build"], { version }: SnapshotVersion): Obstacle {
  const { upgrade, failure } = build ?? {};
  if (upgrade?.of === version && failure !== undefined) {
    const { message, problem = { code: failure.reason, cause: message } } = failure;
    const what = "Capturing it again failed";
    return { reason: "UpgradeFailed", message: `${what}: ${message}`, problem: within(problem, what) };
  }
  return obstacle("Upgrading", "It is being captured again");
}
