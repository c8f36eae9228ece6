import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Swept } from "../backends/backend.ts";
import type { ControllerMetrics } from "../kube/controller.ts";
import { requestMetrics, secondsBuckets } from "../kube/metrics.ts";
import { collectionMetrics } from "./collect/run-collector.ts";

export type ControllersMetrics = ReturnType<typeof controllersMetrics>;
export type SweepMetrics = ControllersMetrics["sweeps"];

export function controllersMetrics(registry: Registry = new Registry()) {
  return {
    registry,
    /** For `KubeClientOptions.onRequest`. */
    onRequest: requestMetrics(registry),
    forController: controllerMetrics(registry),
    sweeps: sweepMetrics(registry),
    collections: collectionMetrics(registry),
    /** Counts a call that was not made because another process had the cell's address. */
    cellNotProven: notProvenCounter(registry),
  };
}

function notProvenCounter(registry: Registry): () => void {
  const counter = new Counter({
    name: "ramet_cells_not_proven_total",
    help: "Calls that were not made because the process at the cell's address did not prove that it is the cell.",
    registers: [registry],
  });
  return () => {
    counter.inc();
  };
}

function sweepMetrics(registry: Registry) {
  const registers = [registry];
  const sweeps = new Counter({
    name: "ramet_store_sweeps_total",
    help: "Sweeps of the store by result: success or error.",
    labelNames: ["result"],
    registers,
  });
  const removed = new Counter({
    name: "ramet_store_swept_total",
    help: "Items removed by sweeps: checkpoints (without an object), rests (orphans of crashes), contents (unreferenced).",
    labelNames: ["what"],
    registers,
  });
  const freed = new Counter({ name: "ramet_store_swept_bytes_total", help: "Bytes freed by sweeps.", registers });
  const lacking = new Gauge({
    name: "ramet_checkpoints_data_missing",
    help: "Checkpoints whose data the last sweep did not find in the store. Shared data counts once.",
    registers,
  });
  return {
    /** @param count how many checkpoints have no data in the store */
    dataMissing: (count: number) => {
      lacking.set(count);
    },
    swept: ({ checkpoints, orphans, contents, freedBytes }: Swept) => {
      sweeps.inc({ result: "success" });
      removed.inc({ what: "checkpoints" }, checkpoints.length);
      removed.inc({ what: "rests" }, orphans);
      removed.inc({ what: "contents" }, contents);
      freed.inc(freedBytes);
    },
    sweepFailed: () => {
      sweeps.inc({ result: "error" });
    },
  };
}

function controllerMetrics(registry: Registry): (name: string) => ControllerMetrics {
  const registers = [registry];
  const labelNames = ["controller"];
  const seconds = (name: string, help: string) =>
    new Histogram({ name, help, labelNames, buckets: secondsBuckets, registers });
  const depth = new Gauge({ name: "ramet_queue_depth", help: "Keys in the queue.", labelNames, registers });
  const retries = new Counter({
    name: "ramet_queue_retries_total",
    help: "Keys requeued after an error.",
    labelNames,
    registers,
  });
  const reconciles = new Counter({
    name: "ramet_reconciles_total",
    help: "Reconciles by result: success, requeue or error.",
    labelNames: ["controller", "result"],
    registers,
  });
  const reconcileSeconds = seconds("ramet_reconcile_seconds", "Duration of a reconcile.");
  const waitSeconds = seconds("ramet_queue_wait_seconds", "Time a key spent in the queue.");
  return (controller) => ({
    depth: (waiting) => {
      depth.set({ controller }, waiting);
    },
    waited: (milliseconds) => {
      waitSeconds.observe({ controller }, milliseconds / 1000);
    },
    worked: () => undefined,
    retried: () => {
      retries.inc({ controller });
    },
    reconciled: (result, milliseconds) => {
      reconciles.inc({ controller, result });
      reconcileSeconds.observe({ controller }, milliseconds / 1000);
    },
  });
}
