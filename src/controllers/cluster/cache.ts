import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { layerIdsOf } from "../../api/state/checkpoint.ts";
import { isStarting } from "../../api/state/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { restoreFrom, type MaybeClone } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { group } from "../../api/schema/kind.ts";
import { controllerKeys } from "../../kube/controller.ts";
import { controllerOf, keyOf, type KubeObject } from "../../kube/object.ts";
import { dataIdOf } from "./pause-checkpoint.ts";
import type { Informers } from "./resources.ts";

/** The informers' objects with the indexes that controllers need. It may lag behind the API server. */
export type Cache = ReturnType<typeof createCache>;

export function createCache({ sandboxes, pods, checkpoints, templates, sets, snapshots }: Informers) {
  const byId = checkpoints.store.index(({ metadata, status }) =>
    status?.checkpointId === undefined ? [] : [`${metadata.namespace}/${status.checkpointId}`],
  );
  const byLayer = checkpoints.store.index(keysOfLayers(layerIdsOf));
  const sandboxesByLayer = sandboxes.store.index(keysOfLayers(({ status }: Sandbox) => status?.ramet?.layers ?? []));
  const byData = checkpoints.store.index((checkpoint) => [`${checkpoint.metadata.namespace}/${dataIdOf(checkpoint)}`]);
  const byOrigin = sandboxes.store.index((sandbox) => {
    const id = readableRestoreFrom(sandbox);
    return id === undefined ? [] : [`${sandbox.metadata.namespace}/${id}`];
  });
  const checkpointsByNamespace = checkpoints.store.index(namespaceOf);
  const setsByTemplate = sets.store.index(templateKeys);
  const setsByOrigin = sets.store.index(namedSnapshotKeys);
  const templatesByOrigin = templates.store.index(namedSnapshotKeys);
  return {
    sandbox: (key: string) => sandboxes.store.get(key),
    pod: (key: string) => pods.store.get(key),
    /** Those that mount this PersistentVolumeClaim, by its key. */
    podsOfClaim: pods.store.index(({ metadata, spec }) =>
      volumeClaims(spec.volumes ?? [], metadata.name).map(({ claim }) => `${metadata.namespace}/${claim}`),
    ),
    checkpoint: (key: string) => checkpoints.store.get(key),
    template: (key: string) => templates.store.get(key),
    checkpointById: (namespace: string, checkpointId: string) => byId(`${namespace}/${checkpointId}`).at(0),
    checkpointByUid: (uid: string) => checkpoints.store.byUid(uid),
    /** Those that name this sandbox or its Pod, by the key of the sandbox. */
    checkpointsOf: checkpoints.store.index((checkpoint) => [sourceKey(checkpoint)]),
    /** Those whose data is stored under this id. */
    checkpointsOfData: (namespace: string, dataId: string) => byData(`${namespace}/${dataId}`),
    /** The Checkpoints and the sandboxes whose files begin with a layer that is stored under this id. */
    usersOfLayer: (namespace: string, dataId: string) => [
      ...byLayer(`${namespace}/${dataId}`),
      ...sandboxesByLayer(`${namespace}/${dataId}`),
    ],
    checkpointsOwnedBy: checkpoints.store.index(ownerUid),
    /** With those that are excluded: they take space. */
    checkpointsIn: (namespace: string) => [
      ...checkpointsByNamespace(namespace),
      ...checkpoints.store.excluded().filter(({ metadata }) => metadata.namespace === namespace),
    ],
    templatesOwnedBy: templates.store.index(ownerUid),
    sandboxesIn: sandboxes.store.index(namespaceOf),
    sandboxesByTemplate: sandboxes.store.index(templateKeys),
    /** Those that are restored, or to be restored, from this checkpoint. */
    clonesOf: (namespace: string, checkpointId: string) => byOrigin(`${namespace}/${checkpointId}`),
    set: (key: string) => sets.store.get(key),
    setsByTemplate,
    /** Those whose template, or whose SandboxTemplate, is restored from any version of this named snapshot. */
    setsWarmedFrom: (snapshotKey: string) => [
      ...setsByOrigin(snapshotKey),
      ...templatesByOrigin(snapshotKey).flatMap(({ metadata }) => setsByTemplate(keyOf(metadata))),
    ],
    snapshot: (key: string) => snapshots.store.get(key),
    /** Those that a set of this name owns, including an earlier set of the name. */
    sandboxesOfSet: sandboxes.store.index(setKeys),
    templatesOfSet: templates.store.index(setKeys),
  };
}

function keysOfLayers<T extends Checkpoint | Sandbox>(idsOf: (object: T) => readonly string[]) {
  return (object: T): string[] => idsOf(object).map((id) => `${object.metadata.namespace}/${id}`);
}

function namespaceOf({ metadata }: { metadata: { namespace: string } }): string[] {
  return [metadata.namespace];
}

/** The SandboxTemplate that an object names. */
function templateKeys({ metadata, spec: { templateRef } }: Sandbox | SandboxSet): string[] {
  return templateRef === undefined ? [] : [`${metadata.namespace}/${templateRef.name}`];
}

/** The key of the sandbox that a Checkpoint captures. */
function sourceKey({ metadata, spec }: Checkpoint): string {
  return `${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`;
}

export function sandboxKeysOfCheckpoint(cache: Cache, checkpoint: Checkpoint): string[] {
  const { metadata, status } = checkpoint;
  const { namespace } = metadata;
  const source = sourceKey(checkpoint);
  const sandbox = cache.sandbox(source);
  const rollsBack = sandbox !== undefined && rollbackRequest(sandbox) !== undefined;
  const waits = controllerOf(checkpoint)?.kind === "Sandbox" || sandbox?.spec.paused === true || rollsBack;
  const clones = status?.checkpointId === undefined ? [] : cache.clonesOf(namespace, status.checkpointId);
  return [...(waits ? [source] : []), ...clones.filter(isStarting).map(({ metadata: clone }) => keyOf(clone))];
}

/** The keys of sandboxes that a change of a NamedSnapshot concerns: those that wait for a version of it. */
export function sandboxKeysOfSnapshot(cache: Cache, { metadata, status }: NamedSnapshot): string[] {
  const { name, namespace } = metadata;
  const versions = (status?.versions ?? []).flatMap(({ version, digest }) => [
    `${name}@${version}`,
    `${name}@${digest}`,
  ]);
  return [name, ...versions]
    .flatMap((reference) => cache.clonesOf(namespace, reference))
    .filter(isStarting)
    .map((clone) => keyOf(clone.metadata));
}

/** The keys of sandboxes that a change of a SandboxTemplate concerns: those that wait for it, and running ones, for its egress. */
export function sandboxKeysOfTemplate(cache: Cache, template: SandboxTemplate): string[] {
  const { namespace } = template.metadata;
  const owner = controllerOf(template);
  const id = owner === undefined ? undefined : cache.checkpointByUid(owner.uid)?.status?.checkpointId;
  const clones = id === undefined ? [] : cache.clonesOf(namespace, id);
  const naming = cache
    .sandboxesByTemplate(keyOf(template.metadata))
    .filter((sandbox) => isStarting(sandbox) || sandbox.status?.phase === "Running");
  return [...naming, ...clones.filter(isStarting)].map(({ metadata }) => keyOf(metadata));
}

const setKeys = controllerKeys("SandboxSet", group);

function ownerUid(object: KubeObject): string[] {
  const owner = controllerOf(object);
  return owner === undefined ? [] : [owner.uid];
}

/** The key of the named snapshot that a template is restored from. For a checkpoint id, no object has the key. */
function namedSnapshotKeys(object: { metadata: { namespace: string }; spec: { template?: unknown } }): string[] {
  const text = readableRestoreFrom({ metadata: {}, spec: object.spec });
  return text === undefined ? [] : [`${object.metadata.namespace}/${text.split("@")[0] ?? ""}`];
}

/** Undefined if two annotations differ: the planner reports that. */
function readableRestoreFrom(sandbox: MaybeClone): string | undefined {
  try {
    return restoreFrom(sandbox);
  } catch (error) {
    if (RametError.from(error).code !== "InvalidArgument") throw error;
    return undefined;
  }
}
