import { type Checkpoint, checkpointKind } from "../../api/kinds/checkpoint.ts";
import { type NamedSnapshot, namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import { type SandboxSet, sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { type SandboxTemplate, sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import type { Log } from "../../base/log.ts";
import type { KnownReferences } from "../../operations/claim/cold-sandbox.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";

/** One informer for each kind that clients see. */
export interface ClientInformers {
  sandboxes: Informer<Sandbox>;
  checkpoints: Informer<Checkpoint>;
  templates: Informer<SandboxTemplate>;
  sets: Informer<SandboxSet>;
  snapshots: Informer<NamedSnapshot>;
}

export function clientInformers(
  client: KubeClient,
  options: { log: Log; namespaces?: readonly string[] | undefined },
): ClientInformers {
  return {
    sandboxes: new Informer({ resource: client.of(sandboxKind), ...options }),
    checkpoints: new Informer({ resource: client.of(checkpointKind), ...options }),
    templates: new Informer({ resource: client.of(sandboxTemplateKind), ...options }),
    sets: new Informer({ resource: client.of(sandboxSetKind), ...options }),
    snapshots: new Informer({ resource: client.of(namedSnapshotKind), ...options }),
  };
}

/** The objects of a namespace as the informers know them. They may lag behind the API server. */
export interface KnownObjects extends KnownReferences {
  set(key: string): SandboxSet | undefined;
  setsIn(namespace: string): SandboxSet[];
  sandboxesIn(namespace: string): Sandbox[];
  checkpointsIn(namespace: string): Checkpoint[];
  snapshotsIn(namespace: string): NamedSnapshot[];
  /** Those that name this sandbox or its Pod. */
  checkpointsOf(sandbox: Sandbox): Checkpoint[];
}

export function knownObjects({ sandboxes, checkpoints, templates, sets, snapshots }: ClientInformers): KnownObjects {
  const byNamespace = ({ metadata }: { metadata: { namespace?: string | undefined } }) => [metadata.namespace ?? ""];
  const checkpointsById = checkpoints.store.index(({ metadata, status }) =>
    status?.checkpointId === undefined ? [] : [`${metadata.namespace}/${status.checkpointId}`],
  );
  const checkpointsBySource = checkpoints.store.index(({ metadata, spec }) => [
    `${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`,
  ]);
  return {
    template: (key) => templates.store.get(key),
    set: (key) => sets.store.get(key),
    snapshot: (key) => snapshots.store.get(key),
    checkpointById: (namespace, id) => checkpointsById(`${namespace}/${id}`)[0],
    setsIn: sets.store.index(byNamespace),
    sandboxesIn: sandboxes.store.index(byNamespace),
    checkpointsIn: checkpoints.store.index(byNamespace),
    snapshotsIn: snapshots.store.index(byNamespace),
    checkpointsOf: ({ metadata }) => checkpointsBySource(`${metadata.namespace}/${metadata.name}`),
  };
}
