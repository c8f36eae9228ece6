import { RametError } from "../../base/errors.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { keyOf } from "../../kube/object.ts";
import { addFinalizer, removeFinalizer } from "../common/finalizer.ts";
import { builderSandbox, captureCheckpoint } from "./manifests.ts";
import type { SnapshotDependencies } from "./dependencies.ts";
import { deleteLog, keepLog } from "./keep-log.ts";
import { attemptId, startStep } from "./steps/start-step.ts";
import type { SnapshotAction } from "./state.ts";

/** Carries out one action. Each can be repeated, and what is done or gone already is no error. */
export async function applyAction(
  snapshot: NamedSnapshot,
  action: SnapshotAction,
  dependencies: SnapshotDependencies,
): Promise<void> {
  const { snapshots, sandboxes } = dependencies.informers;
  switch (action.do) {
    case "addFinalizer":
      await dependencies.ownWrites.write(snapshot, () =>
        addFinalizer(snapshots.resource, snapshot, finalizers.namedSnapshot),
      );
      return;
    case "removeFinalizer":
      await removeFinalizer(snapshots.resource, snapshot, finalizers.namedSnapshot);
      return;
    case "createBuilder":
      await created(sandboxes.resource.create(builderSandbox(snapshot, action)));
      return;
    case "deleteSandbox":
      await sandboxes.resource.delete(action.sandbox.metadata, { uid: action.sandbox.metadata.uid });
      return;
    case "startStep":
      startStep(snapshot, action, dependencies);
      return;
    case "keepLog":
      // News, not truth: a log that cannot be kept must not keep the build from going on.
      await keepLog(dependencies.client, snapshot, action).catch((error: unknown) => {
        dependencies.log.warn(
          { snapshot: keyOf(snapshot.metadata), error: RametError.from(error).message },
          "no log kept",
        );
      });
      return;
    case "deleteLog":
      await deleteLog(dependencies.client, snapshot, action.digest);
      return;
    case "forgetStep":
      dependencies.steps.forget(attemptId(action.builderUid, action.index));
      return;
    default:
      await applyToCheckpoint(snapshot, action, dependencies);
  }
}

async function applyToCheckpoint(
  snapshot: NamedSnapshot,
  action: Extract<SnapshotAction, { do: "capture" | "deleteCheckpoint" | "markStep" }>,
  { informers: { checkpoints } }: SnapshotDependencies,
): Promise<void> {
  if (action.do === "capture") {
    await created(checkpoints.resource.create(captureCheckpoint(snapshot, action)));
    return;
  }
  const { metadata } = action.checkpoint;
  const { uid } = metadata;
  if (action.do === "deleteCheckpoint") {
    await checkpoints.resource.delete(metadata, { uid });
    return;
  }
  const mark = { [annotations.unneededSince]: action.unneededSince ?? null };
  await checkpoints.resource.mergePatch(metadata, { metadata: { uid, annotations: mark } });
}

async function created(creation: Promise<unknown>): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
}
