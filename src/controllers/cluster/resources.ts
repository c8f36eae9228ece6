import { type Checkpoint, checkpointKind } from "../../api/kinds/checkpoint.ts";
import { type NamedSnapshot, namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { type SandboxClaim, sandboxClaimKind } from "../../api/kinds/sandbox-claim.ts";
import { type SandboxSet, sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { type SandboxTemplate, sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { type NamespaceQuota, defaultQuota, quotaOf } from "../../api/quota/namespace-quota.ts";
import { Pod } from "../../api/schema/pod.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type KubeObject, parseObject } from "../../kube/object.ts";
import { coreResources, refOf } from "../../kube/resource-ref.ts";
import type { ObjectStore } from "../../kube/store.ts";

/** The custom resources that the controllers watch. */
export const sandboxResources = {
  sandboxes: refOf(sandboxKind),
  checkpoints: refOf(checkpointKind),
  templates: refOf(sandboxTemplateKind),
  sets: refOf(sandboxSetKind),
  claims: refOf(sandboxClaimKind),
  snapshots: refOf(namedSnapshotKind),
} as const;

export interface Informers {
  sandboxes: Informer<Sandbox>;
  /** Pods that run a cell, and no others. */
  pods: Informer<Pod>;
  checkpoints: Informer<Checkpoint>;
  templates: Informer<SandboxTemplate>;
  sets: Informer<SandboxSet>;
  claims: Informer<SandboxClaim>;
  snapshots: Informer<NamedSnapshot>;
  /** Their annotations hold settings of administrators. */
  namespaces: Informer<KubeObject>;
}

interface InformersOptions {
  /** The namespaces that the controllers serve. @default all */
  namespaces?: readonly string[] | undefined;
  /** Objects that no controller sees. @default none */
  excludes?: (object: KubeObject) => boolean;
}

export function createInformers(
  client: KubeClient,
  log: Log,
  { namespaces, excludes }: InformersOptions = {},
): Informers {
  const options = { log, namespaces, ...defined({ excludes }) };
  return {
    sandboxes: new Informer({ resource: client.of(sandboxKind), ...options }),
    pods: new Informer({
      resource: client.resource(coreResources.pods, (value) => Pod.parse(value)),
      labelSelector: `${labels.cell}=true`,
      ...options,
    }),
    checkpoints: new Informer({ resource: client.of(checkpointKind), ...options }),
    templates: new Informer({ resource: client.of(sandboxTemplateKind), ...options }),
    sets: new Informer({ resource: client.of(sandboxSetKind), ...options }),
    claims: new Informer({ resource: client.of(sandboxClaimKind), ...options }),
    snapshots: new Informer({ resource: client.of(namedSnapshotKind), ...options }),
    namespaces: new Informer({ resource: client.resource(coreResources.namespaces, parseObject), log, namespaces }),
  };
}

interface ExclusionOptions {
  namespaceSelector?: string | undefined;
  namespaces?: readonly string[] | undefined;
}

/**
 * Decides which objects no controller sees: those with the label `ramet.dev/ignore`, and with a selector those outside the
 * namespaces that it selects. A namespace that is not known yet is not selected. The API server evaluates the selector.
 */
export class Exclusion {
  /** The selected namespaces; undefined: all are. */
  readonly namespaces: Informer<KubeObject> | undefined;

  /** @param options.namespaces the only namespaces that the controllers serve. Default: all */
  constructor(client: KubeClient, { namespaceSelector: labelSelector, namespaces }: ExclusionOptions, log: Log) {
    if (labelSelector === undefined) return;
    const resource = client.resource(coreResources.namespaces, parseObject);
    this.namespaces = new Informer({ resource, namespaces, labelSelector, log });
  }

  readonly excludes = ({ metadata }: KubeObject): boolean => {
    if (metadata.labels?.[labels.ignore] === "true") return true;
    if (this.namespaces === undefined || metadata.namespace === undefined) return false;
    return this.namespaces.store.get(metadata.namespace) === undefined;
  };

  /** From now on, a change of the selected namespaces takes effect on these objects. */
  follow(stores: readonly Pick<ObjectStore<KubeObject>, "reconsider">[]): void {
    this.namespaces?.store.subscribe(({ type, object: { metadata } }) => {
      if (type === "updated") return;
      for (const store of stores) store.reconsider((object) => object.metadata.namespace === metadata.name);
    });
  }
}

/** The quotas of namespaces, from the informers' cache: a change applies to what starts after it. */
export class NamespaceQuotas {
  readonly #namespaces: Informers["namespaces"];
  readonly #defaults: NamespaceQuota;

  constructor(namespaces: Informers["namespaces"], defaults: Partial<NamespaceQuota> = {}) {
    this.#namespaces = namespaces;
    this.#defaults = { ...defaultQuota, ...defaults };
  }

  /** The limits, or why they are unknown: then nothing that they limit may start. */
  of(name: string): NamespaceQuota | { problem: RametError } {
    const { annotations } = this.#namespaces.store.get(name)?.metadata ?? {};
    try {
      return quotaOf({ name, annotations }, this.#defaults);
    } catch (error) {
      return { problem: RametError.from(error) };
    }
  }
}
