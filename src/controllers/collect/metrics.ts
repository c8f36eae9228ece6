import type { Registry } from "prom-client";
import { MetricGroup } from "../../kube/metric-group.ts";
import type { Garbage } from "./garbage.ts";

export interface CollectionMetrics {
  collected: (garbage: Garbage) => void;
  failed: () => void;
}

export function collectionMetrics(registry: Registry): CollectionMetrics {
  const group = new MetricGroup(registry);
  const objects = group.counter({
    name: "ramet_garbage_collected_total",
    help: "Objects deleted by the garbage collector, by cause: StepCache, UnusedTemplate or OwnerGone.",
    labelNames: ["garbage"],
  });
  const bytes = group.counter({
    name: "ramet_garbage_collected_bytes_total",
    help: "Total size of the deleted Checkpoints when they were captured. The store frees less if content is shared.",
    labelNames: ["garbage"],
  });
  const failures = group.counter({
    name: "ramet_garbage_failures_total",
    help: "Garbage collections that failed. The next collection runs at the usual interval.",
  });
  return {
    collected: ({ garbage, bytes: freed = 0 }) => {
      objects.inc({ garbage });
      bytes.inc({ garbage }, freed);
    },
    failed: () => {
      failures.inc();
    },
  };
}
