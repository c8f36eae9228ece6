import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { RequestRecord } from "./kube-client.ts";

/**
 * Metrics of one component in a registry. `close` removes them, so that the component can register them again when this
 * process becomes the leader another time.
 */
export class MetricGroup {
  readonly #registry: Registry;
  readonly #names: string[] = [];

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  counter<Label extends string>(definition: MetricDefinition<Label>): Counter<Label> {
    return new Counter(this.#registered(definition));
  }

  histogram<Label extends string>(definition: MetricDefinition<Label> & { buckets: number[] }): Histogram<Label> {
    return new Histogram(this.#registered(definition));
  }

  /** @param collect sets the values; called each time the registry is read */
  gauge<Label extends string>(
    definition: MetricDefinition<Label>,
    collect: (gauge: Gauge<Label>) => void,
  ): Gauge<Label> {
    return new Gauge({
      ...this.#registered(definition),
      collect() {
        this.reset();
        collect(this);
      },
    });
  }

  close(): void {
    for (const name of this.#names) this.#registry.removeSingleMetric(name);
  }

  #registered<Definition extends { name: string }>(definition: Definition) {
    this.#names.push(definition.name);
    return { ...definition, registers: [this.#registry] };
  }
}

interface MetricDefinition<Label extends string> {
  name: string;
  help: string;
  labelNames?: readonly Label[];
}

/** Histogram buckets for operations that usually take milliseconds. */
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
    help: "Time until the API server sent the headers of its response.",
    labelNames: ["verb"],
    buckets: secondsBuckets,
    registers,
  });
  return ({ verb, resource, subresource, httpStatus, milliseconds }) => {
    requests.inc({ verb, resource: resource.plural, subresource: subresource ?? "", status: httpStatus ?? "none" });
    seconds.observe({ verb }, milliseconds / 1000);
  };
}
