import { finalizers } from "../../api/names/labels.ts";
import { planBuild } from "./plan-build.ts";
import { planDeletion } from "./plan-deletion.ts";
import { currentVersion, keptVersions, planRetention, removeBuilders, serve } from "./plan-versions.ts";
import type { SnapshotPlan, SnapshotState } from "./state.ts";
import { pointer, withStatus, type Building } from "./status.ts";

/** What to do about a named snapshot: a pure function of what is known. The rules stand in docs/snapshots.md. */
export function planSnapshot(state: SnapshotState): SnapshotPlan {
  const { metadata } = state.snapshot;
  if (metadata.deletionTimestamp !== undefined) return planDeletion(state);
  if (!(metadata.finalizers?.includes(finalizers.namedSnapshot) ?? false)) return { actions: [{ do: "addFinalizer" }] };
  return lookAgain(state, planVersion(state));
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

function lookAgain({ wanted }: SnapshotState, plan: SnapshotPlan): SnapshotPlan {
  if ("problem" in wanted) return { ...plan, lookAgainAfterMilliseconds: missingMilliseconds };
  const { lookAgainAfterMilliseconds } = wanted;
  return lookAgainAfterMilliseconds === undefined ? plan : { ...plan, lookAgainAfterMilliseconds };
}

/** No informer tells of every kind of input. */
const missingMilliseconds = 10_000;
