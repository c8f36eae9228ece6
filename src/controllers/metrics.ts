import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ControllerMetrics } from "../kube/controller.ts";
import type { RequestRecord } from "../kube/kube-client.ts";

/** What the controllers measure, in the form that Prometheus reads. */
export interface ControllersMetrics {
  registry: Registry;
  /** For `KubeClientOptions.onRequest`. */
  onRequest: (record: RequestRecord) => void;
  forController: (name: string) => ControllerMetrics;
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
