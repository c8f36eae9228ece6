import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { RequestRecord } from "../kube/kube-client.ts";
import { requestMetrics, secondsBuckets } from "../kube/metrics.ts";

/** The Prometheus metrics of a gateway. No metric has a label per sandbox, because there are too many sandboxes. */
export interface GatewayMetrics {
  registry: Registry;
  /** For `KubeClientOptions.onRequest`. */
  onRequest: (record: RequestRecord) => void;
  /** @param seconds until the end of the response, or of the connection after an upgrade */
  answered(status: number, seconds: number): void;
  /** Counts a request that was for the client API. */
  clientApiAnswered(status: number): void;
  /** Changes the number of requests in progress. */
  underWay(change: 1 | -1): void;
  /** Counts a connection or request that the gateway refused to protect itself. */
  refused(reason: Refusal): void;
  /** Counts a resume for traffic that has ended. `denied`: traffic does not resume the sandbox. */
  resumed(result: "resumed" | "denied" | "failed"): void;
  /** Counts a connection that was not used because another process had the cell's address. */
  cellNotProven(): void;
  /** Registers the function that counts the known sandboxes. */
  sandboxes(count: () => number): void;
}

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

export function gatewayMetrics(registry: Registry = new Registry()): GatewayMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: "ramet_gateway_requests_total",
    help: "Total number of requests to sandbox ports by response status. 101 counts upgraded connections.",
    labelNames: ["status"],
    registers,
  });
  const seconds = new Histogram({
    name: "ramet_gateway_request_seconds",
    help: "Time from a request to the end of its response, without upgraded connections.",
    buckets: [...secondsBuckets, 60],
    registers,
  });
  const clientApiRequests = new Counter({
    name: "ramet_gateway_client_api_requests_total",
    help: "Total number of requests that name no sandbox and were proxied to the client API, by response status.",
    labelNames: ["status"],
    registers,
  });
  const underWay = new Gauge({
    name: "ramet_gateway_requests_under_way",
    help: "Number of requests and upgraded connections in progress.",
    registers,
  });
  const refusals = new Counter({
    name: "ramet_gateway_refusals_total",
    help: "Total number of connections and requests that the gateway refused to protect itself, by reason.",
    labelNames: ["reason"],
    registers,
  });
  const resumes = new Counter({
    name: "ramet_gateway_resumes_total",
    help: "Total number of sandboxes that were to be resumed because traffic arrived, by result: resumed, denied or failed.",
    labelNames: ["result"],
    registers,
  });
  const notProven = new Counter({
    name: "ramet_gateway_cells_not_proven_total",
    help: "Connections to cells that were not used because the process at the address did not prove that it is the cell.",
    registers,
  });
  return {
    registry,
    onRequest: requestMetrics(registry),
    answered: (status, duration) => {
      requests.inc({ status });
      if (status !== 101) seconds.observe(duration);
    },
    clientApiAnswered: (status) => {
      clientApiRequests.inc({ status });
    },
    underWay: (change) => {
      underWay.inc(change);
    },
    refused: (reason) => {
      refusals.inc({ reason });
    },
    resumed: (result) => {
      resumes.inc({ result });
    },
    cellNotProven: () => {
      notProven.inc();
    },
    sandboxes: (count) => {
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
