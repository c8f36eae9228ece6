import { labels } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { controllerOf } from "../../kube/object.ts";
import { originReferences, templateOriginReferences } from "../origin/origin.ts";
import type { Informers } from "../cluster/resources.ts";
import { isUpgrading } from "./build-turns.ts";

export type Lookups = ReturnType<typeof createLookups>;

export function createLookups({ snapshots, checkpoints, sandboxes, sets }: Informers) {
  const bySource = snapshots.store.index((one) => sourcesOf(one).map((source) => inNamespace(one, source)));
  const byStep = checkpoints.store.index((one) => ofLabel(one, labels.stepDigest));
  const byOrigin = sandboxes.store.index((one) => originReferences(one).map((text) => inNamespace(one, text)));
  const setsByOrigin = sets.store.index((one) =>
    templateOriginReferences(one.spec.template).map((text) => inNamespace(one, text)),
  );
  const setsByName = sets.store.index((one) =>
    templateOriginReferences(one.spec.template).map((text) => inNamespace(one, text.split("@")[0] ?? "")),
  );
  const upgrading = snapshots.store.index((one) => (isUpgrading(one) ? ["true"] : []));
  return {
    snapshot: (key: string) => snapshots.store.get(key),
    snapshotsIn: snapshots.store.index(({ metadata }) => [metadata.namespace]),
    /** Snapshots built from this source, like `template/python`. */
    snapshotsFrom: (namespace: string, source: string) => bySource(`${namespace}/${source}`),
    /** Checkpoints with this value of the step digest label. */
    checkpointsOfStep: (namespace: string, label: string) => byStep(`${namespace}/${label}`),
    /** By `namespace/snapshot`. */
    checkpointsOfSnapshot: checkpoints.store.index((one) => ofLabel(one, labels.snapshot)),
    /** By the UID of the snapshot. */
    buildersOf: sandboxes.store.index((one) => {
      const owner = controllerOf(one);
      return owner?.kind === "NamedSnapshot" ? [owner.uid] : [];
    }),
    /** Sandboxes that name this snapshot, checkpoint id or version in an annotation, or were cloned from that id. */
    sandboxesFrom: (namespace: string, text: string) => byOrigin(`${namespace}/${text}`),
    setsFrom: (namespace: string, text: string) => setsByOrigin(`${namespace}/${text}`),
    setsNaming: (namespace: string, snapshot: string) => setsByName(`${namespace}/${snapshot}`),
    /** Snapshots of all namespaces that are being captured again after an upgrade. */
    upgrading: () => upgrading("true"),
  };
}

/** The source of a snapshot as a key of the index: `template/python`. */
function sourcesOf({ spec: { from } }: NamedSnapshot): string[] {
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
