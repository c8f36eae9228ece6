import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Swept } from "../backends/backend.ts";
import type { ControllerMetrics } from "../kube/controller.ts";
import type { RequestRecord } from "../kube/kube-client.ts";
import { collectionMetrics, type CollectionMetrics } from "./collect/metrics.ts";

/** What the controllers measure, in the form that Prometheus reads. */
export interface ControllersMetrics {
  registry: Registry;
  /** For `KubeClientOptions.onRequest`. */
  onRequest: (record: RequestRecord) => void;
  forController: (name: string) => ControllerMetrics;
  sweeps: SweepMetrics;
  collections: CollectionMetrics;
}

export interface SweepMetrics {
  swept: (swept: Swept) => void;
  sweepFailed: () => void;
}

export function controllersMetrics(registry: Registry = new Registry()): ControllersMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: "ramet_api_requests_total",
    help: "Requests to the API server.",
    labelNames: ["verb", "resource", "subresource", "status"],
    registers,
  });
  const requestSeconds = new Histogram({
    name: "ramet_api_request_seconds",
    help: "Until the headers of the API server's answer.",
    labelNames: ["verb"],
    buckets,
    registers,
  });
  return {
    registry,
    onRequest: ({ verb, resource, subresource, httpStatus, milliseconds }) => {
      requests.inc({ verb, resource: resource.plural, subresource: subresource ?? "", status: httpStatus ?? "none" });
      requestSeconds.observe({ verb }, milliseconds / 1000);
    },
    forController: controllerMetrics(registry),
    sweeps: sweepMetrics(registry),
    collections: collectionMetrics(registry),
  };
}

function sweepMetrics(registry: Registry): SweepMetrics {
  const registers = [registry];
  const sweeps = new Counter({
    name: "ramet_store_sweeps_total",
    help: "Sweeps of the store by result: success or error.",
    labelNames: ["result"],
    registers,
  });
  const removed = new Counter({
    name: "ramet_store_swept_total",
    help: "What sweeps removed: checkpoints without an object, rests of crashes, contents without a checkpoint.",
    labelNames: ["what"],
    registers,
  });
  const freed = new Counter({ name: "ramet_store_swept_bytes_total", help: "Bytes that sweeps freed.", registers });
  return {
    swept: ({ checkpoints, rests, contents, freedBytes }) => {
      sweeps.inc({ result: "success" });
      removed.inc({ what: "checkpoints" }, checkpoints.length);
      removed.inc({ what: "rests" }, rests);
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
  const seconds = (name: string, help: string) => new Histogram({ name, help, labelNames, buckets, registers });
  const depth = new Gauge({ name: "ramet_queue_depth", help: "Keys that wait.", labelNames, registers });
  const retries = new Counter({ name: "ramet_queue_retries_total", help: "Keys put back.", labelNames, registers });
  const reconciles = new Counter({
    name: "ramet_reconciles_total",
    help: "Reconciles by result: success, requeue or error.",
    labelNames: ["controller", "result"],
    registers,
  });
  const reconcileSeconds = seconds("ramet_reconcile_seconds", "How long a reconcile took.");
  const waitSeconds = seconds("ramet_queue_wait_seconds", "How long a key waited for a worker.");
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

const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
