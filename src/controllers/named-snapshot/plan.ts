import { finalizers } from "../../api/names/labels.ts";
import { planBuild } from "./plan-build.ts";
import { currentVersion, keptVersions, planRetention, removeBuilders, serve } from "./plan-versions.ts";
import type { SnapshotAction, SnapshotPlan, SnapshotState } from "./state.ts";
import { type Building, pointer, withStatus } from "./status.ts";

/** What to do about a named snapshot: a pure function of what is known. The rules stand in docs/tasks/snapshots.md. */
export function planSnapshot(state: SnapshotState): SnapshotPlan {
  const { metadata } = state.snapshot;
  if (metadata.deletionTimestamp !== undefined) return planDeletion(state);
  if (!(metadata.finalizers?.includes(finalizers.namedSnapshot) ?? false)) return { actions: [{ do: "addFinalizer" }] };
  return requeue(state, planVersion(state));
}

function planVersion(state: SnapshotState): SnapshotPlan {
  const { snapshot, wanted } = state;
  const { pinnedVersion, suspend } = snapshot.spec;
  if (pinnedVersion !== undefined) return planPin(state, pinnedVersion);
  if ("problem" in wanted) {
    return planIdle(state, { status: "False", reason: wanted.reason, message: wanted.problem.describe() });
  }
  const kept = keptVersions(state).find(({ digest }) => digest === wanted.digest.digest);
  if (kept !== undefined) return serve(state, kept, wanted);
  if (suspend === true) {
    const message = "It is suspended: what has changed is built when suspend is taken away";
    return planIdle(state, { status: "False", reason: "Suspended", message });
  }
  return planBuild(state, wanted);
}

function planPin(state: SnapshotState, version: number): SnapshotPlan {
  const kept = keptVersions(state);
  const pinned = kept.find((one) => one.version === version);
  if (pinned === undefined) {
    const numbers = kept.map((one) => one.version).join(", ") || "none";
    const message = `Version ${version}, which it is pinned to, is not kept; kept are: ${numbers}`;
    return planIdle(state, { status: "False", reason: "Pinned", message });
  }
  const message = `It is pinned to version ${version}: nothing is built until spec.pinnedVersion is taken away`;
  return planIdle(state, { status: "False", reason: "Pinned", message }, pinned);
}

/** Nothing is built: the version that serves goes on, and no builder is left. */
function planIdle(state: SnapshotState, building: Building, current = currentVersion(state)): SnapshotPlan {
  const versions = keptVersions(state);
  return {
    actions: [...removeBuilders(state), ...planRetention(state, current)],
    status: withStatus(state, pointer({ ...state.snapshot.status, versions }, current), building),
  };
}

function requeue({ wanted }: SnapshotState, plan: SnapshotPlan): SnapshotPlan {
  if ("problem" in wanted) return { ...plan, requeueAfterMilliseconds: missingMilliseconds };
  const { requeueAfterMilliseconds } = wanted;
  return requeueAfterMilliseconds === undefined ? plan : { ...plan, requeueAfterMilliseconds };
}

/** No informer tells of every kind of input. */
const missingMilliseconds = 10_000;

/** It goes when nobody follows its name any more; what it has made goes before it. */
function planDeletion(state: SnapshotState): SnapshotPlan {
  const { snapshot, followers } = state;
  const { name, finalizers: present } = snapshot.metadata;
  if (!(present?.includes(finalizers.namedSnapshot) ?? false)) return { actions: [] };
  if (followers.length > 0) {
    const message = `${name} is not removed yet: ${followers.join(", ")} refer to it. Remove them, or let them name another snapshot`;
    return {
      actions: removeBuilders(state),
      status: withStatus(state, { ...snapshot.status }, { status: "False", reason: "Deleting", message }),
      requeueAfterMilliseconds: followersMilliseconds,
    };
  }
  const builders = [...(state.builder === undefined ? [] : [state.builder]), ...state.strays];
  const removed = [...removeBuilders(state), ...removeMade(state)];
  // A builder that is going still holds its checkpoint's data; the name is free for another snapshot only after it.
  return { actions: builders.length > 0 ? removed : [...removed, { do: "removeFinalizer" }] };
}

/** Builds are of no use without their snapshot; versions are, unless `Delete` says otherwise. */
function removeMade(state: SnapshotState): SnapshotAction[] {
  const { snapshot, made, standing } = state;
  const versions = keptVersions(state);
  const kept = new Set(versions.map(({ checkpointName }) => checkpointName));
  const isRemoved = snapshot.spec.deletionPolicy === "Delete";
  // A version may have been built by an earlier named snapshot of the name.
  const all = [...made, ...versions.flatMap(({ checkpointName }) => standing.get(checkpointName) ?? [])];
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
