import { Counter, Histogram, type Registry } from "prom-client";
import type { NamedSnapshotStatus, SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";

/** What is counted of named snapshots. */
export interface SnapshotMetrics {
  /** Counts what a status says that the one before did not. */
  moved: (before: NamedSnapshotStatus | undefined, after: NamedSnapshotStatus) => void;
  /** Takes all of them out of the registry: another leader's may come. */
  close: () => void;
}

export function snapshotMetrics(registry: Registry): SnapshotMetrics {
  const registers = [registry];
  const builds = new Histogram({
    name: names[0],
    help: "From the beginning of a build to its end, by how it ended: built or failed.",
    labelNames: ["result"],
    buckets: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600],
    registers,
  });
  const steps = new Histogram({
    name: names[1],
    help: "How long the steps of recipes took that were run, by how they ended: Succeeded or Failed.",
    labelNames: ["result"],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900],
    registers,
  });
  const cached = new Counter({
    name: names[2],
    help: "Steps of recipes whose end was restored and not run.",
    registers,
  });
  const served = new Counter({
    name: names[3],
    help: "Versions that began to serve, by why: built, or kept (rolled back or pinned).",
    labelNames: ["why"],
    registers,
  });
  return {
    moved: (before = {}, after) => {
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
    close: () => {
      for (const name of names) registry.removeSingleMetric(name);
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

/** They are known as soon as the builder runs. */
function restoredSteps(before: NamedSnapshotStatus, { build, steps = [] }: NamedSnapshotStatus): number {
  const isAdopted = build?.builderUid !== undefined && build.builderUid !== before.build?.builderUid;
  return isAdopted ? steps.filter(({ cached }) => cached).length : 0;
}

const names = [
  "ramet_snapshot_build_seconds",
  "ramet_snapshot_step_seconds",
  "ramet_snapshot_cached_steps_total",
  "ramet_snapshot_versions_served_total",
] as const;
