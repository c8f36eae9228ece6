import { labels } from "../../api/names/labels.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { rametGroup } from "../../api/schema/kind.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { controllerKeys, watching, type ControllerWatch, type ReconcileResult } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { applyAction } from "./apply.ts";
import type { SnapshotDependencies } from "./dependencies.ts";
import { gather } from "./gather.ts";
import { planSnapshot } from "./plan.ts";

/** Of which changes the NamedSnapshot controller hears. */
export function snapshotWatches({ informers, lookups }: SnapshotDependencies): ControllerWatch[] {
  const from = (namespace: string, source: string) => lookups.snapshotsFrom(namespace, source).map(keyOfSnapshot);
  const ofBuilder = controllerKeys("NamedSnapshot", rametGroup);
  return [
    // A child follows its parent, and what an object refers to waits for it to be gone.
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

/** Builds what its recipe asks for, and serves the version that has the wanted digest. */
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
    dependencies.counted?.moved(snapshot.status, status);
  }
  for (const transition of plan.transitions ?? []) events.record(snapshot, transition);
  for (const action of plan.afterStatus ?? []) await applyAction(snapshot, action, dependencies);
  const { lookAgainAfterMilliseconds } = plan;
  return lookAgainAfterMilliseconds === undefined
    ? undefined
    : { requeueAfterMilliseconds: lookAgainAfterMilliseconds };
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
