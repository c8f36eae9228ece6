import { Counter, Gauge, type Registry } from "prom-client";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { keyOf, type ObjectName } from "../../kube/object.ts";
import type { Cache } from "../common/cache.ts";
import type { Informers } from "../common/resources.ts";
import { memberOf } from "./pool.ts";

/** What is counted of sets. The sizes of the pools are read from the cache when somebody asks for them. */
export interface SetMetrics {
  created: (set: ObjectName) => void;
  deleted: (set: ObjectName, why: "scaleDown" | "update" | "dead" | "victim" | "setGone") => void;
  /** Takes all of them out of the registry: another leader's may come. */
  close: () => void;
}

export function setMetrics(registry: Registry, informers: Informers, cache: Cache): SetMetrics {
  const registers = [registry];
  const labelNames = ["namespace", "name"];
  const created = new Counter({
    name: "ramet_sandboxset_sandboxes_created_total",
    help: "Sandboxes that were made for a set.",
    labelNames,
    registers,
  });
  const deleted = new Counter({
    name: "ramet_sandboxset_sandboxes_deleted_total",
    help: "Sandboxes that a set gave up, by why: scaleDown, update, dead, victim (of a controller that died), setGone.",
    labelNames: [...labelNames, "why"],
    registers,
  });
  const gauges = gaugeTexts.map(
    ([name, help, count]) =>
      new Gauge({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset();
          for (const set of informers.sets.store.list()) {
            const { namespace, name: setName } = set.metadata;
            this.set({ namespace, name: setName }, count(set, statesOf(set, cache)));
          }
        },
      }),
  );
  const names = [
    "ramet_sandboxset_sandboxes_created_total",
    "ramet_sandboxset_sandboxes_deleted_total",
    ...gaugeTexts.map(([name]) => name),
  ];
  return {
    created: ({ namespace = "", name }) => {
      created.inc({ namespace, name });
    },
    deleted: ({ namespace = "", name }, why) => {
      deleted.inc({ namespace, name, why });
    },
    close: () => {
      for (const gauge of gauges) gauge.reset();
      for (const name of names) registry.removeSingleMetric(name);
    },
  };
}

type States = Record<"creating" | "available", number>;

const gaugeTexts = [
  [
    "ramet_sandboxset_desired_replicas",
    "How many unclaimed sandboxes a set is to hold.",
    ({ spec }: SandboxSet) => spec.replicas,
  ],
  [
    "ramet_sandboxset_replicas",
    "How many it holds, available or not.",
    (_: SandboxSet, { creating, available }: States) => creating + available,
  ],
  [
    "ramet_sandboxset_available_replicas",
    "How many of them can be claimed at once.",
    (_: SandboxSet, { available }: States) => available,
  ],
  [
    "ramet_sandboxset_creating_replicas",
    "How many of them are not ready.",
    (_: SandboxSet, { creating }: States) => creating,
  ],
] as const;

function statesOf(set: SandboxSet, cache: Cache): States {
  const states = { creating: 0, available: 0 };
  for (const sandbox of cache.sandboxesOfSet(keyOf(set.metadata))) {
    const { state } = memberOf(sandbox, false);
    if (state === "creating" || state === "available") states[state]++;
  }
  return states;
}
