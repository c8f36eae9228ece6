import type { Registry } from "prom-client";
import type { RametSandboxStatus } from "../../api/kinds/sandbox.ts";
import { MetricGroup } from "../../kube/metrics.ts";

export type Disruption = NonNullable<RametSandboxStatus["disruption"]>;
const continued: ReadonlySet<string> = new Set(["Migrated", "Restored"]);

export function disruptionMetrics(registry: Registry) {
  const group = new MetricGroup(registry);
  const ended = group.counter({
    name: "ramet_sandbox_disruptions_total",
    help: "Sandboxes whose Pods others ended, by cause and by outcome: Migrated, Restored, Paused, Failed or Lost.",
    labelNames: ["cause", "outcome"],
  });
  const seconds = group.histogram({
    name: "ramet_sandbox_disruption_seconds",
    help: "Seconds from the beginning of a disruption until the sandbox has continued in its next Pod, by cause and by outcome.",
    labelNames: ["cause", "outcome"],
    buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900],
  });
  const downtime = group.histogram({
    name: "ramet_sandbox_downtime_seconds",
    help: "Seconds from the capture of a sandbox whose Pod others ended until it responded in its next Pod, by cause.",
    labelNames: ["cause"],
    buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900],
  });
  return {
    ended: ({ cause, outcome, at, savedAt = "", endedAt = "" }: Disruption) => {
      ended.inc({ cause, outcome });
      const since = (time: string) => (Date.parse(endedAt) - Date.parse(time)) / 1000;
      if (continued.has(outcome) && since(at) >= 0) seconds.observe({ cause, outcome }, since(at));
      // Before that, it has served.
      if (outcome === "Migrated" && since(savedAt) >= 0) downtime.observe({ cause }, since(savedAt));
    },
    close: () => {
      group.close();
    },
  };
}
