import type { Registry } from "prom-client";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { MetricGroup } from "../../kube/metrics.ts";
import { keyOf, type ObjectName } from "../../kube/object.ts";
import type { Cache } from "../cluster/cache.ts";
import type { Informers } from "../cluster/resources.ts";
import { memberOf } from "./state.ts";

export type SetMetrics = ReturnType<typeof setMetrics>;

/** Metrics of sets. The pool sizes are read from the cache on each scrape. */
export function setMetrics(registry: Registry, informers: Informers, cache: Cache) {
  const group = new MetricGroup(registry);
  const created = group.counter({
    name: "ramet_sandboxset_sandboxes_created_total",
    help: "Sandboxes created for a set.",
    labelNames: ["namespace", "name"],
  });
  const deleted = group.counter({
    name: "ramet_sandboxset_sandboxes_deleted_total",
    help:
      "Sandboxes deleted by their set, by reason: scaleDown, update, dead (ended), " +
      "victim (locked by a controller that stopped before deleting it), setGone.",
    labelNames: ["namespace", "name", "why"],
  });
  for (const { name, help, count } of gauges) {
    group.gauge({ name, help, labelNames: ["namespace", "name"] }, (gauge) => {
      for (const set of informers.sets.store.list()) {
        const { namespace, name: setName } = set.metadata;
        gauge.set({ namespace, name: setName }, count(set, statesOf(set, cache)));
      }
    });
  }
  return {
    created: ({ namespace = "", name }: ObjectName) => {
      created.inc({ namespace, name });
    },
    deleted: ({ namespace = "", name }: ObjectName, why: "scaleDown" | "update" | "dead" | "victim" | "setGone") => {
      deleted.inc({ namespace, name, why });
    },
    /** Removes the metrics from the registry. */
    close: () => {
      group.close();
    },
  };
}

type States = Record<"creating" | "available", number>;

interface PoolGauge {
  name: string;
  help: string;
  count: (set: SandboxSet, states: States) => number;
}

const gauges: PoolGauge[] = [
  {
    name: "ramet_sandboxset_desired_replicas",
    help: "Number of unclaimed sandboxes in the spec of the set.",
    count: ({ spec }) => spec.replicas,
  },
  {
    name: "ramet_sandboxset_replicas",
    help: "Number of unclaimed sandboxes, ready or not.",
    count: (_, { creating, available }) => creating + available,
  },
  {
    name: "ramet_sandboxset_available_replicas",
    help: "Number of unclaimed sandboxes that are ready to be claimed.",
    count: (_, { available }) => available,
  },
  {
    name: "ramet_sandboxset_creating_replicas",
    help: "Number of unclaimed sandboxes that are not ready.",
    count: (_, { creating }) => creating,
  },
];

function statesOf(set: SandboxSet, cache: Cache): States {
  const states = { creating: 0, available: 0 };
  for (const sandbox of cache.sandboxesOfSet(keyOf(set.metadata))) {
    const { state } = memberOf(sandbox, false);
    if (state === "creating" || state === "available") states[state]++;
  }
  return states;
}
