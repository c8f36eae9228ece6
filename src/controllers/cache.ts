import type { Checkpoint } from "../api/checkpoint.ts";
import { RametError } from "../api/errors.ts";
import { restoreFrom } from "../api/labels.ts";
import type { Pod } from "../api/pod.ts";
import type { Sandbox } from "../api/sandbox.ts";
import type { SandboxTemplate } from "../api/sandbox-template.ts";
import { controllerOf, keyOf, type KubeObject } from "../kube/object.ts";
import type { Informers } from "./resources.ts";

/** What the informers have, found by what the controllers ask for. It may lag behind the API server. */
export interface Cache {
  sandbox(key: string): Sandbox | undefined;
  pod(key: string): Pod | undefined;
  checkpoint(key: string): Checkpoint | undefined;
  template(key: string): SandboxTemplate | undefined;
  checkpointById(namespace: string, checkpointId: string): Checkpoint | undefined;
  checkpointByUid(uid: string): Checkpoint | undefined;
  /** Those of this sandbox, by name: of its own and of its Pod. */
  checkpointsOf(sandboxKey: string): Checkpoint[];
  checkpointsOwnedBy(uid: string): Checkpoint[];
  templatesOwnedBy(uid: string): SandboxTemplate[];
  sandboxesByTemplate(templateKey: string): Sandbox[];
  /** Those that are, or are to be, clones of this checkpoint. */
  clonesOf(namespace: string, checkpointId: string): Sandbox[];
}

export function createCache({ sandboxes, pods, checkpoints, templates }: Informers): Cache {
  const byId = checkpoints.store.index(({ metadata, status }) =>
    status?.checkpointId === undefined ? [] : [`${metadata.namespace}/${status.checkpointId}`],
  );
  const bySource = checkpoints.store.index(({ metadata, spec }) => [
    `${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`,
  ]);
  const byTemplate = sandboxes.store.index(({ metadata, spec }) =>
    spec.templateRef === undefined ? [] : [`${metadata.namespace}/${spec.templateRef.name}`],
  );
  const byOrigin = sandboxes.store.index((sandbox) => {
    const id = readableRestoreFrom(sandbox);
    return id === undefined ? [] : [`${sandbox.metadata.namespace}/${id}`];
  });
  const checkpointsByOwner = checkpoints.store.index(ownerUid);
  const templatesByOwner = templates.store.index(ownerUid);
  return {
    sandbox: (key) => sandboxes.store.get(key),
    pod: (key) => pods.store.get(key),
    checkpoint: (key) => checkpoints.store.get(key),
    template: (key) => templates.store.get(key),
    checkpointById: (namespace, checkpointId) => byId(`${namespace}/${checkpointId}`)[0],
    checkpointByUid: (uid) => checkpoints.store.byUid(uid),
    checkpointsOf: bySource,
    checkpointsOwnedBy: checkpointsByOwner,
    templatesOwnedBy: templatesByOwner,
    sandboxesByTemplate: byTemplate,
    clonesOf: (namespace, checkpointId) => byOrigin(`${namespace}/${checkpointId}`),
  };
}

/** The keys of sandboxes that a change of a Checkpoint concerns. */
export function sandboxKeysOfCheckpoint(cache: Cache, checkpoint: Checkpoint): string[] {
  const { metadata, spec, status } = checkpoint;
  const { namespace } = metadata;
  const source = `${namespace}/${spec.sandboxName ?? spec.podName ?? ""}`;
  const pausing = controllerOf(checkpoint)?.kind === "Sandbox" || cache.sandbox(source)?.spec.paused === true;
  const clones = status?.checkpointId === undefined ? [] : cache.clonesOf(namespace, status.checkpointId);
  return [...(pausing ? [source] : []), ...clones.filter(isStarting).map(({ metadata: clone }) => keyOf(clone))];
}

/** The keys of sandboxes that a change of a SandboxTemplate concerns: those that wait for it. */
export function sandboxKeysOfTemplate(cache: Cache, template: SandboxTemplate): string[] {
  const { namespace } = template.metadata;
  const owner = controllerOf(template);
  const id = owner === undefined ? undefined : cache.checkpointByUid(owner.uid)?.status?.checkpointId;
  const clones = id === undefined ? [] : cache.clonesOf(namespace, id);
  return [...cache.sandboxesByTemplate(keyOf(template.metadata)), ...clones]
    .filter(isStarting)
    .map(({ metadata }) => keyOf(metadata));
}

function isStarting({ status }: Sandbox): boolean {
  return status?.phase === undefined || status.phase === "Pending" || status.phase === "Resuming";
}

function ownerUid(object: KubeObject): string[] {
  const owner = controllerOf(object);
  return owner === undefined ? [] : [owner.uid];
}

/** Two annotations that differ are the planner's to complain about. */
function readableRestoreFrom(sandbox: Sandbox): string | undefined {
  try {
    return restoreFrom(sandbox);
  } catch (error) {
    if (RametError.from(error).code !== "InvalidArgument") throw error;
    return undefined;
  }
}
