import { Counter, Gauge, Histogram, type Registry } from "prom-client";

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
