import type { Registry } from "prom-client";
import { systemNamespace } from "../api/names/system-names.ts";
import { delay, isAborted } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { EventRecorder } from "../kube/events.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { MetricGroup } from "../kube/metrics.ts";
import { findOtherControllers, type FoundControllers, ownedByOthers } from "../kube/other-controllers.ts";
import { coreResources } from "../kube/resource-ref.ts";

export interface YieldingOptions {
  client: KubeClient;
  log: Log;
  events: EventRecorder;
  registry?: Registry | undefined;
  /** Called when the controllers stop for another one, with the reason. */
  onYield?: ((why: string) => void) | undefined;
  /** The pause between two looks. @default 15000 */
  pauseMilliseconds?: number | undefined;
}

/** @throws RametError `OtherController` if another controller owns the kinds of Ramet */
export async function refuseOtherControllers(client: KubeClient, log: Log, signal: AbortSignal): Promise<void> {
  const { others, unread } = await findOtherControllers(client, signal);
  for (const error of unread) log.warn({ error: error.describe() }, "cannot look for other controllers");
  if (others.length > 0) throw ownedByOthers("Cannot start the controllers", others);
}

/**
 * Runs `work`, and stops it as long as another controller owns the kinds: two controllers would overwrite each other's statuses
 * and replace each other's Pods. Objects stay as they are meanwhile.
 */
export async function workUnlessOthersDo(
  options: YieldingOptions,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let others: FoundControllers["others"] = [];
  const group = options.registry && new MetricGroup(options.registry);
  group?.gauge(
    {
      name: "ramet_other_controllers",
      help: "Signs of other controllers that own the same kinds. Above 0, Ramet's controllers do not work.",
    },
    (gauge) => {
      gauge.set(others.length);
    },
  );
  try {
    while (!isAborted(signal)) {
      others = await workUntilOthers(options, work, signal);
      if (isAborted(signal)) return;
      await report(options, others, signal);
      for await (others of looks(options, others, signal)) if (others.length === 0) break;
      if (isAborted(signal)) return;
      options.log.info({}, "no other controller owns the kinds any more: the controllers work again");
    }
  } finally {
    group?.close();
  }
}

/** Resolves to the controllers for which the work was stopped; to none if `signal` was aborted. */
async function workUntilOthers(
  options: YieldingOptions,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<FoundControllers["others"]> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  let found: FoundControllers["others"] = [];
  const watching = (async () => {
    for await (found of looks(options, found, either)) {
      if (found.length > 0) stop.abort(ownedByOthers("The controllers stop", found));
    }
  })();
  try {
    await work(either);
  } finally {
    stop.abort();
    await watching;
  }
  if (found.length === 0 && !signal.aborted) {
    throw new RametError("Internal", "The controllers ended although nothing stopped them");
  }
  return found;
}

/** Looks for other controllers after each pause. A look that fails says nothing, so the result before it counts. */
async function* looks(
  { client, log, pauseMilliseconds = 15_000 }: YieldingOptions,
  before: FoundControllers["others"],
  signal: AbortSignal,
): AsyncGenerator<FoundControllers["others"]> {
  for (let found = before; ;) {
    await delay(client.clock, pauseMilliseconds, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      found = (await findOtherControllers(client, signal)).others;
    } catch (error) {
      if (isAborted(signal)) return;
      log.debug({ error: RametError.from(error).describe() }, "looking for other controllers failed");
    }
    yield found;
  }
}

async function report(
  { client, log, events, onYield }: YieldingOptions,
  others: FoundControllers["others"],
  signal: AbortSignal,
): Promise<void> {
  const why = ownedByOthers("The controllers have stopped", others).describe();
  log.error({ others }, why);
  onYield?.(why);
  // Not on the objects: the other controller writes those.
  const home = await client
    .resource(coreResources.namespaces)
    .find({ name: systemNamespace }, { signal })
    .catch(() => undefined);
  if (home === undefined) return;
  events.record(home, { type: "Warning", reason: "OtherController", action: "Yield", note: why });
}
