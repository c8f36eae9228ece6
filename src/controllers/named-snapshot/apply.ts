import { checkpointKind, type CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import { type NamedSnapshot, namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { sandboxKind, type SandboxManifest } from "../../api/kinds/sandbox.ts";
import { annotations, finalizers, labels } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyOf } from "../../kube/object.ts";
import { attemptId, digestLabel, logKey, logName } from "./names.ts";
import { startStep } from "./start-step.ts";
import type { Cloning, SnapshotAction, SnapshotDependencies } from "./state.ts";

/** Carries out one action. Actions can be repeated: an existing or deleted object is not an error. */
export async function applyAction(
  snapshot: NamedSnapshot,
  action: SnapshotAction,
  dependencies: SnapshotDependencies,
): Promise<unknown> {
  const { snapshots, sandboxes } = dependencies.informers;
  switch (action.do) {
    case "addFinalizer":
      return dependencies.ownWrites.write(snapshot, () =>
        snapshots.resource.addFinalizer(snapshot, finalizers.namedSnapshot),
      );
    case "removeFinalizer":
      return snapshots.resource.removeFinalizer(snapshot, finalizers.namedSnapshot);
    case "createBuilder":
      return sandboxes.resource.ensure(builderSandbox(snapshot, action, dependencies.cloning));
    case "bootBuilder":
      return sandboxes.resource.mergePatch(action.builder.metadata, { metadata: bootRequest(action) });
    case "deleteSandbox":
      return sandboxes.resource.delete(action.sandbox.metadata, { uid: action.sandbox.metadata.uid });
    case "startStep":
      startStep(snapshot, action, dependencies);
      return;
    case "keepLog":
      // A missing log must not stop the build.
      return keepLog(dependencies.client, snapshot, action).catch((error: unknown) => {
        dependencies.log.warn(
          { snapshot: keyOf(snapshot.metadata), error: RametError.from(error).message },
          "the output of a step was not stored",
        );
      });
    case "deleteLog":
      return deleteLog(dependencies.client, snapshot, action.digest);
    case "forgetStep":
      dependencies.steps.forget(attemptId(action.builderUid, action.index));
      return;
    default:
      return applyToCheckpoint(snapshot, action, dependencies);
  }
}

async function applyToCheckpoint(
  snapshot: NamedSnapshot,
  action: Extract<SnapshotAction, { do: "capture" | "deleteCheckpoint" | "markStep" }>,
  { informers: { checkpoints }, cloning }: SnapshotDependencies,
): Promise<void> {
  if (action.do === "capture") {
    await checkpoints.resource.ensure(captureCheckpoint(snapshot, action, cloning));
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

type Of<Action extends SnapshotAction["do"]> = Extract<SnapshotAction, { do: Action }>;

/** The sandbox in which the steps run. It contains its template, so a change of the SandboxTemplate does not affect it. */
export function builderSandbox(
  snapshot: NamedSnapshot,
  { name, base }: Of<"createBuilder">,
  cloning: Cloning,
): SandboxManifest {
  const { annotations: origin, spec } = cloning.builder(snapshot.metadata.namespace, base);
  return {
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: {
      name,
      namespace: snapshot.metadata.namespace,
      labels: { [labels.purpose]: "build", [labels.snapshot]: snapshot.metadata.name },
      annotations: { ...origin, ...ownChoice(snapshot), [annotations.buildBaseSteps]: String(base.steps) },
      ownerReferences: [ownerReference(snapshot)],
    },
    spec,
  };
}

/** The same request each time, so that it can be repeated. */
export function bootRequest({ builder, checkpointId, steps }: Of<"bootBuilder">) {
  const request = { [annotations.rollbackTo]: checkpointId, [annotations.buildBaseSteps]: String(steps) };
  return { uid: builder.metadata.uid, annotations: request };
}

/** Returns the annotation that chooses the volumes of a builder that starts from a checkpoint. */
function ownChoice({ metadata }: NamedSnapshot): Record<string, string> {
  const choice = metadata.annotations?.[annotations.volumesOnRestore];
  return choice === undefined ? {} : { [annotations.volumesOnRestore]: choice };
}

/** A Checkpoint of the builder, or of the sandbox that the snapshot is built from. */
export function captureCheckpoint(
  snapshot: NamedSnapshot,
  capture: Of<"capture">,
  cloning: Cloning,
): CheckpointManifest {
  const { namespace, uid, name } = snapshot.metadata;
  const { of } = capture;
  const stepDigest = of === "source" ? undefined : capture.stepDigest;
  return {
    apiVersion: checkpointKind.apiVersion,
    kind: "Checkpoint",
    metadata: {
      name: capture.name,
      namespace,
      labels: {
        [labels.purpose]: of,
        [labels.snapshot]: name,
        [labels.snapshotUid]: uid,
        ...defined({ [labels.sourceUid]: snapshot.metadata.labels?.[labels.sourceUid] }),
        ...(stepDigest !== undefined && { [labels.stepDigest]: digestLabel(stepDigest) }),
      },
      annotations: {
        ...(of !== "source" && capture.asLayer && { [annotations.asLayer]: "true" }),
        ...(of === "version" && { ...capture.recipe, [annotations.snapshotDigest]: capture.digest }),
        ...defined({ [annotations.stepDigest]: stepDigest }),
      },
      // A version can outlive its named snapshot, so it has no owner.
      ...(of !== "version" && { ownerReferences: [ownerReference(snapshot)] }),
    },
    spec: cloning.captureSpec(snapshot, capture),
  };
}

/**
 * Stores the output of a step in a ConfigMap of the build, under one key for each step. The ConfigMap is deleted with its
 * version, or when the next build of another digest starts. If it is full, the logs of the earliest steps are dropped.
 */
async function keepLog(
  client: KubeClient,
  snapshot: NamedSnapshot,
  { index, digest, text }: { index: number; digest: string; text: string },
): Promise<void> {
  const { name, namespace } = snapshot.metadata;
  const at = { namespace, name: logName(name, digest) };
  const metadata = { ...at, labels: { [labels.snapshot]: name }, ownerReferences: [ownerReference(snapshot)] };
  const { data: kept } = await client.configMaps.ensure({ apiVersion: "v1", kind: "ConfigMap", metadata });
  const data = { ...Object.fromEntries(earliest(kept, text)), [logKey(index)]: text };
  await client.configMaps.mergePatch(at, { data });
}

async function deleteLog(client: KubeClient, snapshot: NamedSnapshot, digest: string): Promise<void> {
  const { name, namespace } = snapshot.metadata;
  await client.configMaps.delete({ namespace, name: logName(name, digest) });
}

/** The keys to remove so that `text` fits, as entries of a merge patch. */
function earliest(kept: Readonly<Record<string, string>>, text: string): [string, null][] {
  const entries = Object.entries(kept).sort(([a], [b]) => (a < b ? -1 : 1));
  let over = entries.reduce((sum, [, log]) => sum + sizeOf(log), sizeOf(text)) - mostBytes;
  return entries.flatMap(([key, log]): [string, null][] => {
    if (over <= 0) return [];
    over -= sizeOf(log);
    return [[key, null]];
  });
}

function sizeOf(log: string): number {
  return Buffer.byteLength(log);
}

/** A ConfigMap holds at most 1 MiB in total. */
const mostBytes = 900_000;

/** For objects that are deleted with the snapshot. */
function ownerReference({ metadata: { name, uid } }: NamedSnapshot) {
  const { apiVersion, kind } = namedSnapshotKind;
  return { apiVersion, kind, name, uid, controller: true };
}
