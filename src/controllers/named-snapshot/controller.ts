import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { rametGroup } from "../../api/schema/kind.ts";
import { controllerKeys, type ControllerWatch, type ReconcileResult, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { OwnWrites } from "../../kube/own-writes.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../common/attempts.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../common/controller-parts.ts";
import { applyAction } from "./apply.ts";
import type { SnapshotDependencies } from "./state.ts";
import { gather } from "./gather.ts";
import { createLookups } from "./lookups.ts";
import { snapshotMetrics } from "./metrics.ts";
import { planSnapshot } from "./plan.ts";
import { publicFetch } from "./steps/public-fetch.ts";
import type { StepOutcome } from "./steps/step.ts";

export function snapshotWatches({ informers, lookups }: SnapshotDependencies): ControllerWatch[] {
  const from = (namespace: string, source: string) => lookups.snapshotsFrom(namespace, source).map(keyOfSnapshot);
  const ofBuilder = controllerKeys("NamedSnapshot", rametGroup);
  return [
    // A child follows its parent, and a parent that is being deleted waits for its children.
    watching(informers.snapshots, ({ metadata: { namespace, name }, spec }) => [
      `${namespace}/${name}`,
      ...from(namespace, `snapshot/${name}`),
      ...(spec.from.snapshot === undefined ? [] : [`${namespace}/${spec.from.snapshot.name}`]),
    ]),
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
  if (cached === undefined) return;
  const snapshot = ownWrites.latest(cached);
  const plan = planSnapshot(await gather(snapshot, dependencies));
  for (const action of plan.actions) await applyAction(snapshot, action, dependencies);
  const { status } = plan;
  if (status !== undefined && !plan.actions.some((action) => action.do === "removeFinalizer")) {
    await ownWrites.write(snapshot, () => statuses.write(snapshot, status));
    dependencies.counted?.statusChanged(snapshot.status, status);
  }
  for (const transition of plan.transitions ?? []) events.record(snapshot, transition);
  for (const action of plan.afterStatus ?? []) await applyAction(snapshot, action, dependencies);
  const { requeueAfterMilliseconds } = plan;
  return requeueAfterMilliseconds === undefined ? undefined : { requeueAfterMilliseconds };
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

export function namedSnapshotController(parts: ControllerParts): Controller {
  const { informers, clock, random, metrics } = parts;
  const counted = metrics && snapshotMetrics(metrics.registry);
  const requeues = new RequeueSource();
  const closing = new AbortController();
  const dependencies: SnapshotDependencies = {
    ...parts,
    lookups: createLookups(informers),
    statuses: new StatusWriter<NamedSnapshot>(informers.snapshots.resource),
    ownWrites: new OwnWrites(informers.snapshots),
    steps: new Attempts<StepOutcome>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    fetch: publicFetch({ clusterRanges: parts.podOptions.clusterRanges }),
    counted,
    closing: closing.signal,
    enqueue: requeues.enqueue,
  };
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
