import { finalizers } from "../../api/names/labels.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemOf, sentenceOf } from "../../api/state/problem.ts";
import { soonest } from "../../kube/controller.ts";
import { planBuild } from "./plan-build.ts";
import { currentVersion, keptVersions, planRetention, removeBuilders, serve } from "./plan-versions.ts";
import type { SnapshotAction, SnapshotPlan, SnapshotState, DesiredVersion } from "./state.ts";
import { type Building, pointer, withStatus } from "./status.ts";
import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import { isEarlier, upgradeObstacle } from "./engine-upgrade.ts";

/** Plans a named snapshot. A pure function; docs/tasks/snapshots.md describes the rules. */
export function planSnapshot(state: SnapshotState): SnapshotPlan {
  const { metadata } = state.snapshot;
  if (metadata.deletionTimestamp !== undefined) return planDeletion(state);
  if (!(metadata.finalizers?.includes(finalizers.namedSnapshot) ?? false)) return { actions: [{ do: "addFinalizer" }] };
  return requeue(state, planVersion(state));
}

/** A build that has to wait. It is requeued at a change of the namespace or of another build, and to be safe from time to time. */
export function planWaiting(state: SnapshotState, why: string): SnapshotPlan {
  const building: Building = { status: "True", reason: "BuildQuotaReached", message: why };
  return requeue(state, {
    actions: [],
    status: withStatus(state, { ...state.snapshot.status }, building),
    requeueAfterMilliseconds: waitingMilliseconds,
  });
}

const waitingMilliseconds = 60_000;

function planVersion(state: SnapshotState): SnapshotPlan {
  const { snapshot, desired } = state;
  const { pinnedVersion, suspend } = snapshot.spec;
  if (pinnedVersion !== undefined) return planPin(state, pinnedVersion);
  if ("problem" in desired) {
    const { reason, problem: error } = desired;
    return planIdle(state, { status: "False", reason, problem: problemOf(error) });
  }
  const kept = keptVersion(state, desired);
  if (kept !== undefined) return planKept(state, kept, desired);
  if (suspend === true) {
    const hint = "Remove spec.suspend to build the changes";
    return planIdle(state, held("Suspended", { code: "Suspended", cause: "Builds are suspended", hint }));
  }
  return planBuild(state, desired);
}

function planPin(state: SnapshotState, version: number): SnapshotPlan {
  const kept = keptVersions(state);
  const pinned = kept.find((one) => one.version === version);
  if (pinned === undefined) {
    const numbers = kept.map((one) => one.version).join(", ") || "none";
    const hint = `Set spec.pinnedVersion to a kept version (${numbers}), or remove it`;
    const cause = `The pinned version ${version} no longer exists`;
    return planIdle(state, held("Pinned", { code: "NotFound", cause, hint }));
  }
  const hint = "Remove spec.pinnedVersion to build and follow new versions";
  const cause = `It is pinned to version ${version}`;
  return planIdle(state, held("Pinned", { code: "Pinned", cause, hint }), pinned);
}

function held(reason: Building["reason"], problem: Problem): Building {
  return { status: "False", reason, message: sentenceOf(problem), problem };
}

/** Builds nothing: keeps the current version and deletes the builders. */
function planIdle(state: SnapshotState, building: Building, current = currentVersion(state)): SnapshotPlan {
  const versions = keptVersions(state);
  return {
    actions: [...removeBuilders(state), ...planRetention(state, current)],
    status: withStatus(state, pointer({ ...state.snapshot.status, versions }, current), building),
  };
}

function requeue({ desired }: SnapshotState, plan: SnapshotPlan): SnapshotPlan {
  if ("problem" in desired) return { ...plan, requeueAfterMilliseconds: missingMilliseconds };
  return { ...plan, ...soonest(plan.requeueAfterMilliseconds, desired.requeueAfterMilliseconds) };
}

/** Some inputs have no informer. */
const missingMilliseconds = 10_000;

/** Waits until no object follows the name, and deletes the objects of the snapshot before the snapshot itself. */
function planDeletion(state: SnapshotState): SnapshotPlan {
  const { snapshot, followers } = state;
  const { name, finalizers: present } = snapshot.metadata;
  if (!(present?.includes(finalizers.namedSnapshot) ?? false)) return { actions: [] };
  if (followers.length > 0) {
    const cause = `Cannot delete ${name} yet: ${followers.join(", ")} refer to it`;
    const hint = "Delete them, or let them refer to another snapshot";
    return {
      actions: removeBuilders(state),
      status: withStatus(state, { ...snapshot.status }, held("Deleting", { code: "Deleting", cause, hint })),
      requeueAfterMilliseconds: followersMilliseconds,
    };
  }
  const builders = [...(state.builder === undefined ? [] : [state.builder]), ...state.orphans];
  const removed = [...removeBuilders(state), ...removeMade(state)];
  // A builder still holds the data of its checkpoint until it is deleted, so the name becomes free only after that.
  return { actions: builders.length > 0 ? removed : [...removed, { do: "removeFinalizer" }] };
}

/** Deletes the Checkpoints of builds, and those of versions if `deletionPolicy` is `Delete`. */
function removeMade(state: SnapshotState): SnapshotAction[] {
  const { snapshot, made, cloneable } = state;
  const versions = keptVersions(state);
  const kept = new Set(versions.map(({ checkpointName }) => checkpointName));
  const isRemoved = snapshot.spec.deletionPolicy === "Delete";
  // A version may have been built by an earlier named snapshot with the same name.
  const all = [...made, ...versions.flatMap(({ checkpointName }) => cloneable.get(checkpointName) ?? [])];
  const checkpoints = new Map(all.map((checkpoint) => [checkpoint.metadata.name, checkpoint]));
  return [
    ...[...checkpoints.values()]
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined && (isRemoved || !kept.has(metadata.name)))
      .map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const),
    ...versions.map(({ digest }) => ({ do: "deleteLog", digest }) as const),
    ...(snapshot.status?.build === undefined
      ? []
      : [{ do: "deleteLog", digest: snapshot.status.build.digest } as const]),
  ];
}

const followersMilliseconds = 10_000;

/** The kept version of a digest: the newest with the engine of new sandboxes, else the newest. */
function keptVersion(state: SnapshotState, { digest }: DesiredVersion): SnapshotVersion | undefined {
  const kept = keptVersions(state).filter((one) => one.digest === digest.digest);
  return kept.findLast((one) => !isEarlier(state, one)) ?? kept.at(-1);
}

/** Makes a kept version current, and captures it again if an upgrade has brought another engine. */
function planKept(state: SnapshotState, kept: SnapshotVersion, desired: DesiredVersion): SnapshotPlan {
  const isCurrent = state.snapshot.status?.version === kept.version;
  if (!isCurrent || !isEarlier(state, kept) || upgradeObstacle(state, kept) !== undefined)
    return serve(state, kept, desired);
  return planBuild(state, desired, { of: kept.version, cellImage: state.engines.cellImage });
}
