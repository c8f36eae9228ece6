import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { labels, restoreFrom, type MaybeClone } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { group } from "../../api/schema/kind.ts";
import { controllerKeys } from "../../kube/controller.ts";
import { controllerOf, keyOf, type KubeObject } from "../../kube/object.ts";
import { dataIdOf } from "./pause-checkpoint.ts";
import type { Informers } from "./resources.ts";

/** The informers' objects with the indexes that controllers need. It may lag behind the API server. */
export interface Cache {
  sandbox(key: string): Sandbox | undefined;
  pod(key: string): Pod | undefined;
  /** Those that mount this PersistentVolumeClaim. */
  podsOfClaim(claimKey: string): Pod[];
  checkpoint(key: string): Checkpoint | undefined;
  template(key: string): SandboxTemplate | undefined;
  checkpointById(namespace: string, checkpointId: string): Checkpoint | undefined;
  checkpointByUid(uid: string): Checkpoint | undefined;
  /** Those that name this sandbox or its Pod. */
  checkpointsOf(sandboxKey: string): Checkpoint[];
  /** Those whose data is stored under this id. */
  checkpointsOfData(namespace: string, dataId: string): Checkpoint[];
  checkpointsOwnedBy(uid: string): Checkpoint[];
  /** With those that are excluded: they take space. */
  checkpointsIn(namespace: string): Checkpoint[];
  templatesOwnedBy(uid: string): SandboxTemplate[];
  sandboxesIn(namespace: string): Sandbox[];
  sandboxesByTemplate(templateKey: string): Sandbox[];
  /** Those that are restored, or to be restored, from this checkpoint. */
  clonesOf(namespace: string, checkpointId: string): Sandbox[];
  set(key: string): SandboxSet | undefined;
  setsByTemplate(templateKey: string): SandboxSet[];
  /** Those whose template, or whose SandboxTemplate, is restored from any version of this named snapshot. */
  setsWarmedFrom(snapshotKey: string): SandboxSet[];
  snapshot(key: string): NamedSnapshot | undefined;
  /** Those that a set of this name owns, including an earlier set of the name. */
  sandboxesOfSet(setKey: string): Sandbox[];
  /** Sandboxes that were claimed from a set with a checkpoint, which is not restored yet. */
  clonesAwaitedOf(setKey: string): Sandbox[];
  templatesOfSet(setKey: string): SandboxTemplate[];
}

export function createCache({ sandboxes, pods, checkpoints, templates, sets, snapshots }: Informers): Cache {
  const byId = checkpoints.store.index(({ metadata, status }) =>
    status?.checkpointId === undefined ? [] : [`${metadata.namespace}/${status.checkpointId}`],
  );
  const byData = checkpoints.store.index((checkpoint) => [`${checkpoint.metadata.namespace}/${dataIdOf(checkpoint)}`]);
  const bySource = checkpoints.store.index(({ metadata, spec }) => [
    `${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`,
  ]);
  const byNamespace = sandboxes.store.index(({ metadata }) => [metadata.namespace]);
  const byTemplate = sandboxes.store.index(({ metadata, spec }) =>
    spec.templateRef === undefined ? [] : [`${metadata.namespace}/${spec.templateRef.name}`],
  );
  const byOrigin = sandboxes.store.index((sandbox) => {
    const id = readableRestoreFrom(sandbox);
    return id === undefined ? [] : [`${sandbox.metadata.namespace}/${id}`];
  });
  const checkpointsByNamespace = checkpoints.store.index(({ metadata }) => [metadata.namespace]);
  const checkpointsByOwner = checkpoints.store.index(ownerUid);
  const templatesByOwner = templates.store.index(ownerUid);
  const setsByTemplate = sets.store.index(({ metadata, spec }) =>
    spec.templateRef === undefined ? [] : [`${metadata.namespace}/${spec.templateRef.name}`],
  );
  const setsByOrigin = sets.store.index(namedSnapshotKeys);
  const templatesByOrigin = templates.store.index(namedSnapshotKeys);
  return {
    sandbox: (key) => sandboxes.store.get(key),
    pod: (key) => pods.store.get(key),
    podsOfClaim: pods.store.index(({ metadata, spec }) =>
      volumeClaims(spec.volumes ?? [], metadata.name).map(({ claim }) => `${metadata.namespace}/${claim}`),
    ),
    checkpoint: (key) => checkpoints.store.get(key),
    template: (key) => templates.store.get(key),
    checkpointById: (namespace, checkpointId) => byId(`${namespace}/${checkpointId}`)[0],
    checkpointByUid: (uid) => checkpoints.store.byUid(uid),
    checkpointsOf: bySource,
    checkpointsOfData: (namespace, dataId) => byData(`${namespace}/${dataId}`),
    checkpointsOwnedBy: checkpointsByOwner,
    checkpointsIn: (namespace) => [
      ...checkpointsByNamespace(namespace),
      ...checkpoints.store.excluded().filter(({ metadata }) => metadata.namespace === namespace),
    ],
    templatesOwnedBy: templatesByOwner,
    sandboxesIn: byNamespace,
    sandboxesByTemplate: byTemplate,
    clonesOf: (namespace, checkpointId) => byOrigin(`${namespace}/${checkpointId}`),
    set: (key) => sets.store.get(key),
    setsByTemplate,
    setsWarmedFrom: (key) => [
      ...setsByOrigin(key),
      ...templatesByOrigin(key).flatMap(({ metadata }) => setsByTemplate(keyOf(metadata))),
    ],
    snapshot: (key) => snapshots.store.get(key),
    sandboxesOfSet: sandboxes.store.index(setKeys),
    clonesAwaitedOf: sandboxes.store.index((sandbox) => {
      const { labels: own, namespace } = sandbox.metadata;
      const set = own?.[labels.sandboxClaimed] === "true" ? own[labels.sandboxPool] : undefined;
      return set !== undefined && isRollbackPending(sandbox) ? [`${namespace}/${set}`] : [];
    }),
    templatesOfSet: templates.store.index(setKeys),
  };
}

/** The keys of sandboxes that a change of a Checkpoint concerns. */
export function sandboxKeysOfCheckpoint(cache: Cache, checkpoint: Checkpoint): string[] {
  const { metadata, spec, status } = checkpoint;
  const { namespace } = metadata;
  const source = `${namespace}/${spec.sandboxName ?? spec.podName ?? ""}`;
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

function isStarting({ status }: Sandbox): boolean {
  return status?.phase === undefined || status.phase === "Pending" || status.phase === "Resuming";
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
