import type { Registry } from "prom-client";
import type { NamedSnapshotStatus, SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";
import { MetricGroup } from "../../kube/metrics.ts";

export type SnapshotMetrics = ReturnType<typeof snapshotMetrics>;

export function snapshotMetrics(registry: Registry) {
  const group = new MetricGroup(registry);
  const builds = group.histogram({
    name: "ramet_snapshot_build_seconds",
    help: "Duration of builds in seconds, by result: built or failed.",
    labelNames: ["result"],
    buckets: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600],
  });
  const steps = group.histogram({
    name: "ramet_snapshot_step_seconds",
    help: "Duration of recipe steps in seconds, without cached steps, by result: Succeeded or Failed.",
    labelNames: ["result"],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900],
  });
  const cached = group.counter({
    name: "ramet_snapshot_cached_steps_total",
    help: "Recipe steps that were restored from the cache instead of run.",
  });
  const served = group.counter({
    name: "ramet_snapshot_versions_served_total",
    help: "Versions that became the current version, by reason: built, or kept (rolled back or pinned).",
    labelNames: ["why"],
  });
  return {
    /** Counts the differences between two successive statuses. */
    statusChanged: (before: NamedSnapshotStatus = {}, after: NamedSnapshotStatus) => {
      const end = endedBuild(before, after);
      if (end !== undefined) builds.observe({ result: end.result }, end.seconds);
      for (const { state, milliseconds = 0 } of endedSteps(before, after)) {
        steps.observe({ result: state }, milliseconds / 1000);
      }
      cached.inc(restoredSteps(before, after));
      if (after.version !== undefined && after.version !== before.version) {
        served.inc({ why: after.latestVersion === before.latestVersion ? "kept" : "built" });
      }
    },
    /** Removes the metrics from the registry. */
    close: () => {
      group.close();
    },
  };
}

function endedBuild(before: NamedSnapshotStatus, { build }: NamedSnapshotStatus) {
  if (build?.endedAt === undefined || before.build?.endedAt === build.endedAt) return undefined;
  const seconds = (Date.parse(build.endedAt) - Date.parse(build.startedAt)) / 1000;
  return { result: build.failure === undefined ? "built" : "failed", seconds };
}

function endedSteps(before: NamedSnapshotStatus, { steps = [] }: NamedSnapshotStatus): SnapshotStep[] {
  const wasKnown = (index: number): boolean => before.steps?.[index]?.milliseconds !== undefined;
  return steps.filter(({ cached, milliseconds }, index) => !cached && milliseconds !== undefined && !wasKnown(index));
}

/** The cached steps of a build, counted when its builder starts to run. */
function restoredSteps(before: NamedSnapshotStatus, { build, steps = [] }: NamedSnapshotStatus): number {
  const isAdopted = build?.builderUid !== undefined && build.builderUid !== before.build?.builderUid;
  return isAdopted ? steps.filter(({ cached }) => cached).length : 0;
}
