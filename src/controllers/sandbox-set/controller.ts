import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { group } from "../../api/schema/kind.ts";
import { unlessCode } from "../../base/errors.ts";
import {
  type ControllerWatch,
  type ReconcileResult,
  controllerKeys,
  soonest,
  watching,
} from "../../kube/controller.ts";
import { type KubeObject, controllerOf, keyOf, nameOfKey } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../cluster/controller-parts.ts";
import { applyAction } from "./apply.ts";
import { Budgets } from "./budgets.ts";
import { StatusPace } from "./conditions.ts";
import { type SetDependencies, gather } from "./gather.ts";
import { setMetrics } from "./metrics.ts";
import { NewSandboxes, overdueMilliseconds } from "./new-sandboxes.ts";
import { planSet } from "./plan.ts";
import { type SetPlan, type SetState, memberOf } from "./state.ts";

const ownerSet = controllerKeys("SandboxSet", group);

export function setWatches({ informers, cache }: SetDependencies): ControllerWatch[] {
  return [
    watching(informers.sets),
    watching(informers.sandboxes, ownerSet),
    watching(informers.templates, (template) => [
      ...ownerSet(template),
      ...cache.setsByTemplate(keyOf(template.metadata)).map(({ metadata }) => keyOf(metadata)),
    ]),
    watching(informers.snapshots, (snapshot) =>
      cache.setsWarmedFrom(keyOf(snapshot.metadata)).map(({ metadata }) => keyOf(metadata)),
    ),
  ];
}

/** Keeps one set's pool filled and up to date. */
export async function reconcileSet(
  key: string,
  dependencies: SetDependencies,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  await deleteOrphans(key, dependencies);
  const set = dependencies.cache.set(key);
  if (set === undefined || set.metadata.deletionTimestamp !== undefined) return;
  const state = await gather(set, dependencies);
  // Begins first: a drain may follow the mark of a node immediately.
  const budget = dependencies.budgets.keep(set, state.departing);
  const plan = planSet(state);
  // The status reports the observed state, so it does not wait for the actions.
  const [written, ...outcomes] = await Promise.allSettled([
    writeStatus(state, plan, dependencies),
    ...plan.actions.map((action) => applyAction(state, action, dependencies, signal)),
  ]);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  if (written.status === "rejected") throw written.reason;
  return soonest(requeue(state, plan, written.value)?.requeueAfterMilliseconds, await budget);
}

/** Writes the status, or returns the milliseconds until it may be written. */
async function writeStatus(
  { set }: SetState,
  { status, transitions }: SetPlan,
  { statuses, statusPace, events }: SetDependencies,
): Promise<number> {
  const { uid } = set.metadata;
  const known = statuses.latest(set);
  const milliseconds = statusPace.millisecondsUntil(uid, known.status, status);
  if (milliseconds > 0) return milliseconds;
  const written = await statuses.write(set, status);
  if (written !== known) statusPace.written(uid);
  for (const transition of transitions) events.record(set, transition);
  return 0;
}

/** The cache shows the result of most actions, which reconciles the key; the requeue is for events that do not arrive. */
function requeue({ unseen, deletionsUnseen }: SetState, plan: SetPlan, statusInMilliseconds: number): ReconcileResult {
  const acted = plan.actions.length > 0 || unseen.length > 0 || deletionsUnseen;
  const statusDue = statusInMilliseconds > 0 ? statusInMilliseconds : undefined;
  return soonest(statusDue, plan.requeueAfterMilliseconds, acted ? overdueMilliseconds : undefined);
}

/**
 * Deletes the objects of a deleted set, as not every cluster has a garbage collector. Claimed sandboxes stay: a claim removes the
 * owner reference.
 */
async function deleteOrphans(key: string, dependencies: SetDependencies): Promise<void> {
  const { cache, informers, newSandboxes, metrics } = dependencies;
  const present = cache.set(key)?.metadata.uid;
  const isOrphan = (object: KubeObject): boolean => controllerOf(object)?.uid !== present;
  const sandboxes = cache.sandboxesOfSet(key).filter(isOrphan).filter(isUnclaimed);
  const templates = cache.templatesOfSet(key).filter(isOrphan);
  if (sandboxes.length + templates.length === 0) return;
  // A missing set leads to deletions, so the API server confirms it.
  const found = (await informers.sets.resource.find(nameOfKey(key)))?.metadata.uid;
  const ofGoneSet = (object: KubeObject): boolean => controllerOf(object)?.uid !== found;
  await Promise.all([
    ...templates.filter(ofGoneSet).map((template) => deleteAsSeen(informers.templates.resource, template)),
    ...sandboxes.filter(ofGoneSet).map(async (sandbox) => {
      await deleteAsSeen(informers.sandboxes.resource, sandbox);
      newSandboxes.deleting(sandbox.metadata.uid);
      metrics?.deleted(nameOfKey(key), "setGone");
    }),
  ]);

  function isUnclaimed(sandbox: Parameters<typeof memberOf>[0]): boolean {
    const { state } = memberOf(sandbox, newSandboxes.isLeaving(sandbox.metadata.uid));
    return state !== "used" && state !== "leaving";
  }
}

async function deleteAsSeen<T extends KubeObject>(resource: ResourceClient<T>, { metadata }: T): Promise<void> {
  if (metadata.deletionTimestamp !== undefined) return;
  const { uid, resourceVersion } = metadata;
  // The change of a conflict reconciles the key again.
  await resource.delete(metadata, { uid, resourceVersion }).catch(unlessCode("Conflict"));
}

export function sandboxSetController(parts: ControllerParts): Controller {
  const { informers, cache, clock, metrics } = parts;
  const dependencies: SetDependencies = {
    ...parts,
    statuses: new StatusWriter<SandboxSet>(informers.sets.resource),
    statusPace: new StatusPace(clock),
    budgets: new Budgets(parts),
    newSandboxes: new NewSandboxes(informers.sandboxes, clock),
    failures: new Map(),
    newTemplates: new Set(),
    metrics: metrics && setMetrics(metrics.registry, informers, cache),
  };
  forgetDeleted(dependencies);
  const requeues = new RequeueSource();
  parts.engines.onChange(() => {
    for (const set of informers.sets.store.list()) requeues.enqueue(keyOf(set.metadata));
  });
  parts.departures.onNode((pods) => {
    for (const { metadata } of pods) {
      const sandbox = cache.sandbox(keyOf(metadata));
      for (const key of sandbox === undefined ? [] : ownerSet(sandbox)) requeues.enqueue(key);
    }
  });
  return {
    name: "sandboxset",
    watches: setWatches(dependencies),
    reconcile: (key, signal) => reconcileSet(key, dependencies, signal),
    requeues,
    close: () => {
      dependencies.metrics?.close();
    },
  };
}

function forgetDeleted({
  informers,
  budgets,
  newSandboxes,
  failures,
  statusPace,
  newTemplates,
}: SetDependencies): void {
  informers.sets.store.subscribe(({ type, object: { metadata } }) => {
    if (type !== "deleted") return;
    budgets.forget(metadata.uid);
    newSandboxes.forget(metadata.uid);
    failures.delete(metadata.uid);
    statusPace.forget(metadata.uid);
  });
  informers.templates.store.subscribe(({ object }) => {
    newTemplates.delete(keyOf(object.metadata));
  });
}
