import { finalizers } from "../../api/names/labels.ts";
import { keptVersions, removeBuilders } from "./plan-versions.ts";
import type { SnapshotAction, SnapshotPlan, SnapshotState } from "./state.ts";
import { withStatus } from "./status.ts";

/** It goes when nobody follows its name any more; what it has made goes before it. */
export function planDeletion(state: SnapshotState): SnapshotPlan {
  const { snapshot, followers } = state;
  const { name, finalizers: present } = snapshot.metadata;
  if (!(present?.includes(finalizers.namedSnapshot) ?? false)) return { actions: [] };
  if (followers.length > 0) {
    const message = `${name} is not removed yet: ${followers.join(", ")} refer to it. Remove them, or let them name another snapshot`;
    return {
      actions: removeBuilders(state),
      status: withStatus(state, { ...snapshot.status }, { status: "False", reason: "Deleting", message }),
      lookAgainAfterMilliseconds: followersMilliseconds,
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
