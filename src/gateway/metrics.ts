import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { RequestRecord } from "../kube/kube-client.ts";
import { requestMetrics, secondsBuckets } from "../kube/request-metrics.ts";

/** What a gateway measures, in the form that Prometheus reads. Nothing is told of single sandboxes: there are too many. */
export interface GatewayMetrics {
  registry: Registry;
  /** For `KubeClientOptions.onRequest`. */
  onRequest: (record: RequestRecord) => void;
  /** @param seconds until the answer's end, or the connection's of one that was upgraded */
  answered(status: number, seconds: number): void;
  /** Of requests that are under way. */
  underWay(change: 1 | -1): void;
  /** Of sandboxes that are known. */
  sandboxes(count: () => number): void;
}

export function gatewayMetrics(registry: Registry = new Registry()): GatewayMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: "ramet_gateway_requests_total",
    help: "Requests to ports of sandboxes, by the status of the answer; 101 is a connection that was upgraded.",
    labelNames: ["status"],
    registers,
  });
  const seconds = new Histogram({
    name: "ramet_gateway_request_seconds",
    help: "Until the end of the answer, without connections that were upgraded.",
    buckets: [...secondsBuckets, 60],
    registers,
  });
  const underWay = new Gauge({
    name: "ramet_gateway_requests_under_way",
    help: "Requests and upgraded connections.",
    registers,
  });
  return {
    registry,
    onRequest: requestMetrics(registry),
    answered: (status, duration) => {
      requests.inc({ status });
      if (status !== 101) seconds.observe(duration);
    },
    underWay: (change) => {
      underWay.inc(change);
    },
    sandboxes: (count) => {
      new Gauge({
        name: "ramet_gateway_sandboxes",
        help: "Sandboxes that the gateway knows.",
        registers,
        collect() {
          this.set(count());
        },
      });
    },
  };
}
