import type { Registry } from "prom-client";
import { type Clock, delay, isAborted } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Informer } from "../../kube/informer.ts";
import { MetricGroup } from "../../kube/metrics.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Informers } from "../cluster/resources.ts";
import {
  collect,
  type Collectable,
  type CollectionState,
  defaultStepCacheBytes,
  type Garbage,
  readCollection,
} from "./garbage.ts";
import { planCollection } from "./plan-collection.ts";

export interface CollectingOptions {
  informers: Pick<Informers, keyof Collectable>;
  clock: Clock;
  log: Log;
  metrics?: CollectionMetrics;
  /** The garbage that is deleted. @default what is not due at a time, which the kinds' controllers delete */
  collects?: (garbage: Garbage, now: Date) => boolean;
  /** Per namespace. @default 20 GiB */
  stepCacheBytes?: number;
  /** Pause before each collection. @default 600000 */
  pauseMilliseconds?: number;
}

/**
 * Collects garbage every ten minutes until `signal` is aborted. Runs in the leader only. A failed collection is logged and
 * retried at the next interval.
 */
export async function runCollector(options: CollectingOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, metrics, pauseMilliseconds = 600_000 } = options;
  for (;;) {
    await delay(clock, pauseMilliseconds, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await collectOnce(options, signal);
    } catch (thrown) {
      if (isAborted(signal)) return;
      metrics?.failed();
      log.warn({ error: RametError.from(thrown).describe() }, "garbage collection failed");
    }
  }
}

/** Checks the caches first, which is cheap, and confirms garbage with the API server. */
async function collectOnce(options: CollectingOptions, signal: AbortSignal): Promise<void> {
  const { informers, log, metrics, clock, stepCacheBytes = defaultStepCacheBytes, collects = isUndue } = options;
  const collectable = (state: CollectionState): Garbage[] =>
    planCollection(state).filter((garbage) => collects(garbage, clock.now()));
  const settings = { stepCacheBytes, now: clock.now() };
  if (collectable({ ...cached(informers), ...settings }).length === 0) return;
  const from: Collectable = resources(informers);
  const garbages = collectable(await readCollection(from, { ...settings, signal }));
  for (const garbage of garbages.filter((one) => !isExcluded(one, informers))) {
    try {
      if (!(await collect(from, garbage, signal))) continue;
    } catch (thrown) {
      // It has changed since it was read: the next collection checks it again.
      if (RametError.from(thrown).code === "Conflict") continue;
      throw thrown;
    }
    const { kind, namespace, name, why, bytes } = garbage;
    metrics?.collected(garbage);
    log.info({ kind, namespace, name, why, bytes }, "deleted garbage");
  }
}

function isUndue({ dueAt }: Garbage): boolean {
  return dueAt === undefined;
}

/** Excluded objects still keep the objects that they refer to. */
function isExcluded(
  { kind, uid }: Garbage,
  { checkpoints, templates, claims }: CollectingOptions["informers"],
): boolean {
  const { store } = { Checkpoint: checkpoints, SandboxTemplate: templates, SandboxClaim: claims }[kind];
  return store.byUid(uid) === undefined;
}

function cached(informers: CollectingOptions["informers"]): Omit<CollectionState, "stepCacheBytes" | "now"> {
  const { templates, checkpoints, sandboxes, sets, snapshots, claims } = informers;
  return {
    templates: templates.store.list(),
    checkpoints: checkpoints.store.list(),
    sandboxes: sandboxes.store.list(),
    sets: sets.store.list(),
    snapshots: snapshots.store.list(),
    claims: claims.store.list(),
  };
}

function resources(informers: CollectingOptions["informers"]): Collectable {
  const { templates, checkpoints, sandboxes, sets, snapshots, claims } = informers;
  return {
    templates: followed(templates),
    checkpoints: followed(checkpoints),
    sandboxes: followed(sandboxes),
    sets: followed(sets),
    snapshots: followed(snapshots),
    claims: followed(claims),
  };
}

/** The resource, of which the controllers may list only what they follow. */
function followed<T extends KubeObject>(informer: Informer<T>): Pick<Informer<T>["resource"], "list" | "delete"> {
  return {
    list: async (options) => ({ items: await informer.listNow(options?.signal), resourceVersion: "" }),
    delete: (at, options) => informer.resource.delete(at, options),
  };
}

export type CollectionMetrics = ReturnType<typeof collectionMetrics>;

export function collectionMetrics(registry: Registry) {
  const group = new MetricGroup(registry);
  const objects = group.counter({
    name: "ramet_garbage_collected_total",
    help: "Objects deleted by the garbage collector, by cause: StepCache, UnusedTemplate, UnusedTree, UnnamedSource or OwnerGone.",
    labelNames: ["garbage"],
  });
  const bytes = group.counter({
    name: "ramet_garbage_collected_bytes_total",
    help: "Total size of the deleted Checkpoints when they were captured. The store frees less if content is shared.",
    labelNames: ["garbage"],
  });
  const failures = group.counter({
    name: "ramet_garbage_failures_total",
    help: "Garbage collections that failed. The next collection runs at the usual interval.",
  });
  return {
    collected: ({ garbage, bytes: freed = 0 }: Garbage) => {
      objects.inc({ garbage });
      bytes.inc({ garbage }, freed);
    },
    failed: () => {
      failures.inc();
    },
  };
}
