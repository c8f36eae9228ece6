import type { namedSnapshotConditions, SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import { annotations } from "../../api/names/labels.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { SnapshotState } from "./state.ts";

type Facts = Pick<SnapshotState, "snapshot" | "desired" | "engines">;

interface Obstacle {
  reason: (typeof namedSnapshotConditions)["EngineCurrent"][number];
  message: string;
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
    return { reason: "Pinned", message: "It is pinned; remove spec.pinnedVersion to capture it again" };
  }
  if ("problem" in desired) return { reason: "InputMissing", message: desired.problem.describe() };
  if (desired.digest.digest !== kept.digest) {
    return { reason: "VersionOutdated", message: "The next version has the current engine" };
  }
  if (suspend === true) {
    return { reason: "Suspended", message: "Builds are suspended; remove spec.suspend to capture it again" };
  }
  if (engines.source === "bound") {
    const message = `It cannot be captured again, because its source is memory of an earlier engine: ${sourceOf(from)}; give it a template, or a named snapshot with the current engine, as its source`;
    return { reason: "SourceBound", message };
  }
  if (engines.source === "waiting") {
    return { reason: "SourceUpgrading", message: `It waits until ${sourceOf(from)} is captured again` };
  }
  if (isManual(state, kept)) {
    const { name, namespace } = snapshot.metadata;
    const message = `Its engineUpgrade is Manual; capture it again with: ramet snapshot build ${name} -n ${namespace}`;
    return { reason: "ManualUpgrade", message };
  }
  return engines.wait === undefined ? undefined : { reason: "UpgradeWaiting", message: engines.wait };
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
): Omit<Condition, "lastTransitionTime"> | undefined {
  const current = versions.find((one) => one.version === version);
  if (current === undefined) return undefined;
  const type = "EngineCurrent";
  if (!isEarlier(state, current)) {
    if (!conditions.some((one) => one.type === type)) return undefined;
    return { type, status: "True", reason: "EngineCurrent", message: "The version has the engine of new sandboxes" };
  }
  const is = `Version ${current.version} has the engine ${current.engine ?? ""} of another cell image, and remains usable`;
  const { reason, message } = upgradeObstacle(state, current) ?? progressOf(build, current);
  return { type, status: "False", reason, message: `${is}. ${message}` };
}

function progressOf(build: NamedSnapshotStatus["build"], { version }: SnapshotVersion): Obstacle {
  const { upgrade, failure } = build ?? {};
  if (upgrade?.of === version && failure !== undefined) {
    return { reason: "UpgradeFailed", message: `Capturing it again failed: ${failure.message}` };
  }
  return { reason: "Upgrading", message: "It is being captured again" };
}
