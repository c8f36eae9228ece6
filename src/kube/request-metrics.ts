import { Counter, Histogram, type Registry } from "prom-client";
import type { RequestRecord } from "./kube-client.ts";

/** Of what is fast as a rule. */
export const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counts and times requests to the API server: for `KubeClientOptions.onRequest`. */
export function requestMetrics(registry: Registry): (record: RequestRecord) => void {
  const registers = [registry];
  const requests = new Counter({
    name: "ramet_api_requests_total",
    help: "Requests to the API server.",
    labelNames: ["verb", "resource", "subresource", "status"],
    registers,
  });
  const seconds = new Histogram({
    name: "ramet_api_request_seconds",
    help: "Until the headers of the API server's answer.",
    labelNames: ["verb"],
    buckets: secondsBuckets,
    registers,
  });
  return ({ verb, resource, subresource, httpStatus, milliseconds }) => {
    requests.inc({ verb, resource: resource.plural, subresource: subresource ?? "", status: httpStatus ?? "none" });
    seconds.observe({ verb }, milliseconds / 1000);
  };
}
