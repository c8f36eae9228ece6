import { Counter, type Registry } from "prom-client";
import type { Garbage } from "./garbage.ts";

/** What is counted of the collector. */
export interface CollectionMetrics {
  collected: (garbage: Garbage) => void;
  failed: () => void;
}

export function collectionMetrics(registry: Registry): CollectionMetrics {
  const registers = [registry];
  const objects = new Counter({
    name: "ramet_garbage_collected_total",
    help: "Objects that the collector deleted, by why: StepCache, UnusedTemplate or OwnerGone.",
    labelNames: ["garbage"],
    registers,
  });
  const bytes = new Counter({
    name: "ramet_garbage_collected_bytes_total",
    help: "Sizes of the Checkpoints among them, as captured. The store frees less where content is shared.",
    labelNames: ["garbage"],
    registers,
  });
  const failures = new Counter({
    name: "ramet_garbage_failures_total",
    help: "Collections that did not come to their end; the next one is tried as usual.",
    registers,
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
