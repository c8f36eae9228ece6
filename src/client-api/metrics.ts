import { Counter, Histogram, Registry } from "prom-client";
import { requestMetrics, secondsBuckets } from "../kube/metrics.ts";

export type ClientApiMetrics = ReturnType<typeof clientApiMetrics>;

/** The Prometheus metrics of a client API. No metric has a label per key or sandbox, because there are too many. */
export function clientApiMetrics(registry: Registry = new Registry()) {
  const registers = [registry];
  const requests = new Counter({
    name: "ramet_client_api_requests_total",
    help: "Total number of requests by route and response status.",
    labelNames: ["route", "status"],
    registers,
  });
  const seconds = new Histogram({
    name: "ramet_client_api_request_seconds",
    help: "Time from a request to its response, by route.",
    labelNames: ["route"],
    buckets: [...secondsBuckets, 60],
    registers,
  });
  return {
    registry,
    /** For `KubeClientOptions.onRequest`. */
    onRequest: requestMetrics(registry),
    answered: (route: string, status: number, duration: number) => {
      requests.inc({ route, status });
      seconds.observe({ route }, duration);
    },
  };
}
