import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import { isEarlier, upgradeObstacle } from "./engine-upgrade.ts";
import { planBuild } from "./plan-build.ts";
import { keptVersions, serve } from "./plan-versions.ts";
import type { DesiredVersion, SnapshotPlan, SnapshotState } from "./state.ts";

/** The kept version of a digest: the newest with the engine of new sandboxes, else the newest. */
export function keptVersion(state: SnapshotState, { digest }: DesiredVersion): SnapshotVersion | undefined {
  const kept = keptVersions(state).filter((one) => one.digest === digest.digest);
  return kept.findLast((one) => !isEarlier(state, one)) ?? kept.at(-1);
}

/** Makes a kept version current, and captures it again if an upgrade has brought another engine. */
export function planKept(state: SnapshotState, kept: SnapshotVersion, desired: DesiredVersion): SnapshotPlan {
  const isCurrent = state.snapshot.status?.version === kept.version;
  if (!isCurrent || !isEarlier(state, kept) || upgradeObstacle(state, kept) !== undefined)
    return serve(state, kept, desired);
  return planBuild(state, desired, { of: kept.version, cellImage: state.engines.cellImage });
}
