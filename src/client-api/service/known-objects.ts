import { checkpointKind } from "../../api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import type { Log } from "../../base/log.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";

/** One informer for each kind that clients see. */
export type ClientInformers = ReturnType<typeof clientInformers>;

export function clientInformers(client: KubeClient, options: { log: Log; namespaces?: readonly string[] | undefined }) {
  return {
    sandboxes: new Informer({ resource: client.of(sandboxKind), ...options }),
    checkpoints: new Informer({ resource: client.of(checkpointKind), ...options }),
    templates: new Informer({ resource: client.of(sandboxTemplateKind), ...options }),
    sets: new Informer({ resource: client.of(sandboxSetKind), ...options }),
    snapshots: new Informer({ resource: client.of(namedSnapshotKind), ...options }),
  };
}

/** The objects of a namespace as the informers know them. They may lag behind the API server. */
export type KnownObjects = ReturnType<typeof knownObjects>;

export function knownObjects({ sandboxes, checkpoints, templates, sets, snapshots }: ClientInformers) {
  const byNamespace = ({ metadata }: { metadata: { namespace?: string | undefined } }) => [metadata.namespace ?? ""];
  const checkpointsById = checkpoints.store.index(({ metadata, status }) =>
    status?.checkpointId === undefined ? [] : [`${metadata.namespace}/${status.checkpointId}`],
  );
  const checkpointsBySource = checkpoints.store.index(({ metadata, spec }) => [
    `${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`,
  ]);
  return {
    template: (key: string) => templates.store.get(key),
    set: (key: string) => sets.store.get(key),
    snapshot: (key: string) => snapshots.store.get(key),
    checkpointById: (namespace: string, id: string) => checkpointsById(`${namespace}/${id}`)[0],
    setsIn: sets.store.index(byNamespace),
    sandboxesIn: sandboxes.store.index(byNamespace),
    checkpointsIn: checkpoints.store.index(byNamespace),
    snapshotsIn: snapshots.store.index(byNamespace),
    /** Those that name this sandbox or its Pod. */
    checkpointsOf: ({ metadata }: Sandbox) => checkpointsBySource(`${metadata.namespace}/${metadata.name}`),
  };
}
