import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { requestMetrics, secondsBuckets } from "../kube/metrics.ts";

export type GatewayMetrics = ReturnType<typeof gatewayMetrics>;

/** Why the gateway refused a connection or a request. `overload`: it has too many connections. */
export type Refusal =
  | "overload"
  | "client"
  | "namespace"
  | "sandbox"
  | "timeout"
  | "invalidRequest"
  | "pipelining"
  | "resets"
  | "token"
  | "reviews"
  | "waiting";

/** The Prometheus metrics of a gateway. No metric has a label per sandbox, because there are too many sandboxes. */
export function gatewayMetrics(registry: Registry = new Registry()) {
  const registers = [registry];
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `ramet_gateway_${name}`, help, labelNames, registers });
  const requests = counter(
    "requests_total",
    "Total number of requests to sandbox ports by response status. 101 counts upgraded connections.",
    "status",
  );
  const seconds = new Histogram({
    name: "ramet_gateway_request_seconds",
    help: "Time from a request to the end of its response, without upgraded connections.",
    buckets: [...secondsBuckets, 60],
    registers,
  });
  const clientApiRequests = counter(
    "client_api_requests_total",
    "Total number of requests that name no sandbox and were proxied to the client API, by response status.",
    "status",
  );
  const underWay = new Gauge({
    name: "ramet_gateway_requests_under_way",
    help: "Number of requests and upgraded connections in progress.",
    registers,
  });
  const refusals = counter(
    "refusals_total",
    "Total number of connections and requests that the gateway refused to protect itself, by reason.",
    "reason",
  );
  const resumes = counter(
    "resumes_total",
    "Total number of sandboxes that were to be resumed because traffic arrived, by result: resumed, denied or failed.",
    "result",
  );
  const notProven = counter(
    "cells_not_proven_total",
    "Connections to cells that were not used because the process at the address did not prove that it is the cell.",
  );
  return {
    registry,
    /** For `KubeClientOptions.onRequest`. */
    onRequest: requestMetrics(registry),
    /** @param duration until the end of the response, or of the connection after an upgrade */
    answered: (status: number, duration: number) => {
      requests.inc({ status });
      if (status !== 101) seconds.observe(duration);
    },
    clientApiAnswered: (status: number) => {
      clientApiRequests.inc({ status });
    },
    /** Changes the number of requests in progress. */
    underWay: (change: 1 | -1) => {
      underWay.inc(change);
    },
    refused: (reason: Refusal) => {
      refusals.inc({ reason });
    },
    /** Counts a resume for traffic that has ended. `denied`: traffic does not resume the sandbox. */
    resumed: (result: "resumed" | "denied" | "failed") => {
      resumes.inc({ result });
    },
    cellNotProven: () => {
      notProven.inc();
    },
    /** Registers the function that counts the known sandboxes. */
    sandboxes: (count: () => number) => {
      new Gauge({
        name: "ramet_gateway_sandboxes",
        help: "Number of sandboxes in the gateway's cache.",
        registers,
        collect() {
          this.set(count());
        },
      });
    },
  };
}
