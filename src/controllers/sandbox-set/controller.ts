import { group } from "../../api/schema/kind.ts";
import { controllerKeys, watching, type ControllerWatch, type ReconcileResult } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { applyAction } from "./apply.ts";
import type { SetDependencies } from "./dependencies.ts";
import { lookInMilliseconds, setOfClone } from "./giving-way.ts";
import { gather } from "./gather.ts";
import { overdueMilliseconds } from "./new-sandboxes.ts";
import { deleteOrphans } from "./orphans.ts";
import { planSet } from "./plan.ts";
import type { SetPlan, SetState } from "./state.ts";

/** Of which changes the SandboxSet controller hears. */
export function setWatches({ informers, cache, clock }: SetDependencies): ControllerWatch[] {
  const owner = controllerKeys("SandboxSet", group);
  return [
    watching(informers.sets),
    watching(informers.sandboxes, (sandbox) => [...owner(sandbox), ...setOfClone(sandbox, clock.now())], {
      delayMilliseconds: (change) => lookInMilliseconds(change, clock.now()),
    }),
    watching(informers.templates, (template) => [
      ...owner(template),
      ...cache.setsByTemplate(keyOf(template.metadata)).map(({ metadata }) => keyOf(metadata)),
    ]),
    watching(informers.snapshots, (snapshot) =>
      cache.setsWarmedFrom(keyOf(snapshot.metadata)).map(({ metadata }) => keyOf(metadata)),
    ),
  ];
}

/** Keeps one set's pool filled and of one revision. */
export async function reconcileSet(
  key: string,
  dependencies: SetDependencies,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  await deleteOrphans(key, dependencies);
  const set = dependencies.cache.set(key);
  if (set === undefined || set.metadata.deletionTimestamp !== undefined) return;
  const state = await gather(set, dependencies);
  const plan = planSet(state);
  // The status says what was found, so it need not wait for what takes its time.
  const [written, ...outcomes] = await Promise.allSettled([
    writeStatus(state, plan, dependencies),
    ...plan.actions.map((action) => applyAction(state, action, dependencies, signal)),
  ]);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  if (written.status === "rejected") throw written.reason;
  return lookAgain(state, plan, written.value);
}

/** Answers in how many milliseconds the status may be written, if not now. */
async function writeStatus(
  { set, givesWayMilliseconds }: SetState,
  { status, transitions }: SetPlan,
  { statuses, statusPace, events }: SetDependencies,
): Promise<number> {
  const { uid } = set.metadata;
  const known = statuses.latest(set);
  // To say so would take the processor as well.
  if (givesWayMilliseconds > 0) return givesWayMilliseconds;
  const milliseconds = statusPace.millisecondsUntil(uid, known.status, status);
  if (milliseconds > 0) return milliseconds;
  const written = await statuses.write(set, status);
  if (written !== known) statusPace.written(uid);
  for (const transition of transitions) events.record(set, transition);
  return 0;
}

/** Most of what is done brings the key again by itself, when the cache shows it. */
function lookAgain(
  { unseen, deletionsUnseen }: SetState,
  plan: SetPlan,
  statusInMilliseconds: number,
): ReconcileResult {
  const acted = plan.actions.length > 0 || unseen.length > 0 || deletionsUnseen;
  const waits = [
    ...(statusInMilliseconds > 0 ? [statusInMilliseconds] : []),
    ...(plan.lookAgainInMilliseconds === undefined ? [] : [plan.lookAgainInMilliseconds]),
    ...(acted ? [overdueMilliseconds] : []),
  ];
  return waits.length === 0 ? undefined : { requeueAfterMilliseconds: Math.max(1, Math.min(...waits)) };
}
