import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { labels } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { controllerOf } from "../../kube/object.ts";
import { originReferences, templateOriginReferences } from "../origin/set-origin.ts";
import type { Informers } from "../cluster/resources.ts";
import { isUpgrading } from "./upgrade-turns.ts";

export interface Lookups {
  snapshot(key: string): NamedSnapshot | undefined;
  snapshotsIn(namespace: string): NamedSnapshot[];
  /** Snapshots built from this source, like `template/python`. */
  snapshotsFrom(namespace: string, source: string): NamedSnapshot[];
  /** Checkpoints with this value of the step digest label. */
  checkpointsOfStep(namespace: string, label: string): Checkpoint[];
  checkpointsOfSnapshot(snapshotKey: string): Checkpoint[];
  buildersOf(snapshotUid: string): Sandbox[];
  /** Sandboxes that name this snapshot, checkpoint id or version in an annotation, or were cloned from that id. */
  sandboxesFrom(namespace: string, text: string): Sandbox[];
  setsFrom(namespace: string, text: string): SandboxSet[];
  /** Sets that name this snapshot at any version. */
  setsNaming(namespace: string, snapshot: string): SandboxSet[];
  /** Snapshots of all namespaces that are being captured again after an upgrade. */
  upgrading: () => NamedSnapshot[];
}

export function createLookups({ snapshots, checkpoints, sandboxes, sets }: Informers): Lookups {
  const bySource = snapshots.store.index((one) => sourcesOf(one).map((source) => inNamespace(one, source)));
  const byStep = checkpoints.store.index((one) => ofLabel(one, labels.stepDigest));
  const bySnapshot = checkpoints.store.index((one) => ofLabel(one, labels.snapshot));
  const builders = sandboxes.store.index((one) => {
    const owner = controllerOf(one);
    return owner?.kind === "NamedSnapshot" ? [owner.uid] : [];
  });
  const byOrigin = sandboxes.store.index((one) => originReferences(one).map((text) => inNamespace(one, text)));
  const setsByOrigin = sets.store.index((one) =>
    templateOriginReferences(one.spec.template).map((text) => inNamespace(one, text)),
  );
  const setsByName = sets.store.index((one) =>
    templateOriginReferences(one.spec.template).map((text) => inNamespace(one, text.split("@")[0] ?? "")),
  );
  const upgrading = snapshots.store.index((one) => (isUpgrading(one) ? ["true"] : []));
  return {
    upgrading: () => upgrading("true"),
    snapshot: (key) => snapshots.store.get(key),
    snapshotsIn: snapshots.store.index(({ metadata }) => [metadata.namespace]),
    snapshotsFrom: (namespace, source) => bySource(`${namespace}/${source}`),
    checkpointsOfStep: (namespace, label) => byStep(`${namespace}/${label}`),
    checkpointsOfSnapshot: bySnapshot,
    buildersOf: builders,
    sandboxesFrom: (namespace, text) => byOrigin(`${namespace}/${text}`),
    setsFrom: (namespace, text) => setsByOrigin(`${namespace}/${text}`),
    setsNaming: (namespace, snapshot) => setsByName(`${namespace}/${snapshot}`),
  };
}

/** The source of a snapshot as a key of the index: `template/python`. */
export function sourcesOf({ spec: { from } }: NamedSnapshot): string[] {
  return [
    ...(from.template === undefined ? [] : [`template/${from.template.name}`]),
    ...(from.snapshot === undefined ? [] : [`snapshot/${from.snapshot.name}`]),
    ...(from.sandbox === undefined ? [] : [`sandbox/${from.sandbox.name}`]),
    ...(from.checkpoint === undefined ? [] : [`checkpoint/${from.checkpoint.id}`]),
  ];
}

type Named = { metadata: { namespace: string; labels?: Record<string, string> | undefined } };

function inNamespace({ metadata }: Named, text: string): string {
  return `${metadata.namespace}/${text}`;
}

function ofLabel(object: Named, label: string): string[] {
  const value = object.metadata.labels?.[label];
  return value === undefined ? [] : [inNamespace(object, value)];
}
