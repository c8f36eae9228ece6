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
  return {
    ended: ({ cause, outcome, at, endedAt = "" }: Disruption) => {
      ended.inc({ cause, outcome });
      const milliseconds = Date.parse(endedAt) - Date.parse(at);
      if (continued.has(outcome) && milliseconds >= 0) seconds.observe({ cause, outcome }, milliseconds / 1000);
    },
    close: () => {
      group.close();
    },
  };
}
