import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { rametGroup } from "../../api/schema/kind.ts";
import { controllerKeys, type ControllerWatch, type ReconcileResult, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { OwnWrites } from "../../kube/informer.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../cluster/attempts.ts";
import {
  type CellParts,
  type ClusterParts,
  type Controller,
  type DataParts,
  type ProcessParts,
  RequeueSource,
} from "../cluster/controller-parts.ts";
import { applyAction } from "./apply.ts";
import { buildTurns, cluster, isBuildUnderWay, upgradeTurns } from "./build-turns.ts";
import { ownCloning } from "./cloning.ts";
import type { SnapshotDependencies, SnapshotPlan, SnapshotState } from "./state.ts";
import { gather } from "./gather.ts";
import { createLookups } from "./lookups.ts";
import { snapshotMetrics } from "./metrics.ts";
import { planSnapshot, planWaiting } from "./plan.ts";
import { storeRegistryLogin } from "./registry-login.ts";
import { FetchTurns } from "./steps/fetch-turns.ts";
import { publicFetch } from "./steps/fetch-content.ts";
import type { StepOutcome } from "./steps/step.ts";

export function snapshotWatches({
  informers,
  lookups,
  builds,
  upgrades,
  fetches,
}: SnapshotDependencies): ControllerWatch[] {
  const from = (namespace: string, source: string) => lookups.snapshotsFrom(namespace, source).map(keyOfSnapshot);
  const ofBuilder = controllerKeys("NamedSnapshot", rametGroup);
  return [
    // A child follows its parent, and a parent that is being deleted waits for its children.
    watching(informers.snapshots, ({ metadata: { namespace, name }, spec }) => [
      `${namespace}/${name}`,
      ...from(namespace, `snapshot/${name}`),
      ...(spec.from.snapshot === undefined ? [] : [`${namespace}/${spec.from.snapshot.name}`]),
      ...builds.next(namespace),
      ...upgrades.next(cluster),
    ]),
    watching(informers.namespaces, ({ metadata: { name } }) => {
      fetches.quotaChanged();
      return builds.next(name);
    }),
    watching(informers.templates, ({ metadata: { namespace, name } }) => from(namespace, `template/${name}`)),
    watching(informers.sandboxes, (sandbox: Sandbox) => [
      ...ofBuilder(sandbox),
      ...from(sandbox.metadata.namespace, `sandbox/${sandbox.metadata.name}`),
    ]),
    watching(informers.checkpoints, (checkpoint: Checkpoint) => keysOfCheckpoint(checkpoint, from)),
  ];
}

/** Builds a version of the spec if none is kept, and makes the version of the spec current. */
export async function reconcileSnapshot(key: string, dependencies: SnapshotDependencies): Promise<ReconcileResult> {
  const { lookups, ownWrites, statuses, events } = dependencies;
  const cached = lookups.snapshot(key);
  if (cached === undefined) {
    const { builds, upgrades, enqueue } = dependencies;
    [...builds.release(key), ...upgrades.release(key)].forEach(enqueue);
    return;
  }
  const snapshot = await storeRegistryLogin(ownWrites.latest(cached), dependencies);
  const state = await gather(snapshot, dependencies);
  await dependencies.cloning.keep(state.made);
  const plan = inTurn(state, dependencies);
  for (const action of plan.actions) await applyAction(snapshot, action, dependencies);
  const { status } = plan;
  if (status !== undefined && !plan.actions.some((action) => action.do === "removeFinalizer")) {
    await ownWrites.write(snapshot, () => statuses.write(snapshot, status));
    dependencies.counted?.statusChanged(snapshot.status, status);
  }
  for (const transition of plan.transitions ?? []) events.record(snapshot, transition);
  for (const action of plan.afterStatus ?? []) await applyAction(snapshot, action, dependencies);
  return plan;
}

/** The plan, if it builds nothing or the quota of the namespace allows another build; otherwise the build waits. */
function inTurn(
  state: SnapshotState,
  { builds, upgrades, enqueue }: Pick<SnapshotDependencies, "builds" | "upgrades" | "enqueue">,
): SnapshotPlan {
  const plan = planSnapshot(state);
  const key = keyOf(state.snapshot.metadata);
  const isBuild = isBuildUnderWay(plan.status);
  if (isBuild && plan.status?.build?.upgrade !== undefined) {
    const why = upgrades.take(key);
    const busy = why ?? builds.take(key);
    // Nobody waits behind an upgrade that waits for the other turn.
    if (why !== undefined) builds.release(key).forEach(enqueue);
    else if (busy !== undefined) upgrades.release(key).forEach(enqueue);
    return busy === undefined ? plan : planSnapshot({ ...state, engines: { ...state.engines, wait: busy } });
  }
  upgrades.release(key).forEach(enqueue);
  if (!isBuild) {
    builds.release(key).forEach(enqueue);
    return plan;
  }
  const why = builds.take(key);
  return why === undefined ? plan : planWaiting(state, why);
}

function keysOfCheckpoint({ metadata, status }: Checkpoint, from: (namespace: string, source: string) => string[]) {
  const { namespace } = metadata;
  const name = metadata.labels?.[labels.snapshot];
  const id = status?.checkpointId;
  return [
    ...(name === undefined ? [] : [`${namespace}/${name}`]),
    ...(id === undefined ? [] : from(namespace, `checkpoint/${id}`)),
  ];
}

function keyOfSnapshot({ metadata }: NamedSnapshot): string {
  return keyOf(metadata);
}

/** A builder whose cell is unreachable for longer is treated as lost. */
const unreachableMilliseconds = 60_000;

/** The dependencies that the process gives the controller. Absent `cloning`: Ramet's controllers own the sandboxes. */
type SnapshotParts = Omit<ClusterParts, "sandboxWrites"> &
  ProcessParts &
  Pick<DataParts, "quotas"> &
  Pick<CellParts, "engines" | "podOptions"> &
  Pick<SnapshotDependencies, "runtime" | "credentialKeys"> & { cloning?: SnapshotDependencies["cloning"] };

export function namedSnapshotController(parts: SnapshotParts): Controller {
  const { informers, clock, random, metrics } = parts;
  const counted = metrics && snapshotMetrics(metrics.registry);
  const requeues = new RequeueSource();
  const closing = new AbortController();
  const lookups = createLookups(informers);
  const ownWrites = new OwnWrites(informers.snapshots);
  const fetch = publicFetch({ clusterRanges: parts.podOptions.clusterRanges });
  const dependencies: SnapshotDependencies = {
    ...parts,
    cloning: parts.cloning ?? ownCloning,
    lookups,
    statuses: new StatusWriter<NamedSnapshot>(informers.snapshots.resource),
    ownWrites,
    steps: new Attempts<StepOutcome>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    builds: buildTurns(parts.quotas, (namespace) => lookups.snapshotsIn(namespace).map((one) => ownWrites.latest(one))),
    upgrades: upgradeTurns(
      // Until the engine of the current image is known, one build finds it out.
      () => (parts.engines.isCurrentKnown() ? parts.engines.concurrentUpgrades : 1),
      lookups.upgrading,
    ),
    fetches: new FetchTurns({ fetch, quotas: parts.quotas, clock }),
    counted,
    closing: closing.signal,
    enqueue: requeues.enqueue,
  };
  parts.engines.onChange(() => {
    for (const { metadata } of informers.snapshots.store.list()) requeues.enqueue(keyOf(metadata));
  });
  return {
    name: "named-snapshot",
    watches: snapshotWatches(dependencies),
    reconcile: (key) => reconcileSnapshot(key, dependencies),
    requeues,
    close: () => {
      closing.abort();
      dependencies.steps.close();
      counted?.close();
    },
  };
}
