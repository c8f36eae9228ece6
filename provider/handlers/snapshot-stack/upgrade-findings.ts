import * as z from "zod";
import type { Finding } from "../../../src/preflight/finding.ts";
import { removedVersions, removeWebhook } from "../../../src/preflight/snapshot-checks.ts";
import { crdNames, type ObservedCrd, type ObservedWebhook } from "../../../src/preflight/snapshot-objects.ts";
import type { ObservedCluster, ObservedObject } from "./observed-cluster.ts";

/**
 * Reports what prevents an upgrade of external-snapshotter to v8.6, from the changelogs of v7.0 to v8.6. Nothing is
 * repaired automatically, because each repair deletes something or interrupts a service.
 */
export function upgradeFindings(
  { controller }: { controller: { namespace: string; name: string } },
  plan: { crds: boolean; groupCrds: boolean; controller: boolean },
  observed: ObservedCluster,
): Finding[] {
  const declared = [...(plan.crds ? crdNames.core : []), ...(plan.groupCrds ? crdNames.group : [])];
  const crds = observed.crds.filter(({ name }) => declared.includes(name));
  return [
    ...(plan.crds ? serverFindings(observed.server) : []),
    ...crds.flatMap(storedFindings),
    ...crds.filter(({ hasConversionWebhook }) => hasConversionWebhook).map(conversionFinding),
    ...(plan.crds || plan.controller ? observed.webhooks.map(webhookFinding) : []),
    ...(plan.crds && observed.breakingRules.length > 0 ? [brokenFinding(observed.breakingRules)] : []),
    ...(plan.controller && observed.crds.some(isBeforeRules) ? [modeFinding] : []),
    ...(plan.controller ? selectorFindings(controller, observed) : []),
  ];
}

const conflict = { check: "snapshot-upgrade", code: "Conflict", level: "error" } as const;

/** The validation rules need Kubernetes 1.25. */
function serverFindings(server: string): Finding[] {
  const [, major = "1", minor = "99"] = /^v?(\d+)\.(\d+)/.exec(server) ?? [];
  if (Number(major) > 1 || Number(minor) >= 25) return [];
  const message = `the API server has the version ${server}, but the CRDs of external-snapshotter v8 need Kubernetes 1.25`;
  return [{ ...conflict, message, action: "Upgrade the cluster to a newer version first" }];
}

/** An API server rejects a CRD that lacks a stored version. */
function storedFindings({ name, stored }: ObservedCrd): Finding[] {
  const missing = removedVersions({ name, stored });
  if (missing.length === 0) return [];
  const message = `objects of ${name} may be stored as ${missing.join(", ")}, which v8.6 no longer has`;
  const action = `If there are no such objects, run: kubectl delete crd ${name}; otherwise rewrite each object with a served version, then remove ${missing.join(", ")} from the CRD's status.storedVersions`;
  return [{ ...conflict, message, action }];
}

/** v8.4 and v8.5 had a conversion webhook that v8.6 does not have. */
function conversionFinding({ name }: ObservedCrd): Finding {
  const message = `the CRD ${name} uses a conversion webhook that v8.6 does not have`;
  return { ...conflict, message, action: `Remove it with: ${removeWebhook(name)}` };
}

/** A webhook without a server rejects every snapshot. */
function webhookFinding({ name, isUpstreams }: ObservedWebhook): Finding {
  if (!isUpstreams) {
    const message = `the ValidatingWebhookConfiguration ${name} validates snapshots; it may reject all of them while its server is unavailable`;
    return { check: "snapshot-upgrade", code: "Conflict", message, action: "Keep it if you need it", level: "warning" };
  }
  const message = `the ValidatingWebhookConfiguration ${name} validates snapshots, but external-snapshotter has no such webhook since v8.2`;
  return {
    ...conflict,
    message,
    action: `Delete it before you delete its server: kubectl delete validatingwebhookconfiguration ${name}`,
  };
}

/** Such objects can be read, but not changed, not even to finish their deletion. */
function brokenFinding(objects: readonly string[]): Finding {
  const named = objects.slice(0, 5).join(", ");
  const more = objects.length > 5 ? ` and ${objects.length - 5} more` : "";
  const message = `existing objects violate the rules of the CRDs of v8.6 and could no longer be changed: ${named}${more}`;
  const action =
    "Repair or delete each object: it needs exactly one source and no empty class name; a content needs the name and namespace of its snapshot";
  return { ...conflict, message, action };
}

function isBeforeRules({ name, hasRules }: ObservedCrd): boolean {
  return name.startsWith("volumesnapshotcontents.") && !hasRules;
}

/** `--prevent-volume-mode-conversion` is the default since v7. */
const modeFinding: Finding = {
  check: "snapshot-upgrade",
  code: "Conflict",
  message: "since external-snapshotter v7 a restore that changes a volume's mode (Filesystem, Block) is rejected",
  action:
    "To allow it, annotate the VolumeSnapshotContent with snapshot.storage.kubernetes.io/allow-volume-mode-change=true",
  level: "warning",
};

/** A Deployment's selector is immutable. Until v7 upstream used the label `app`. */
function selectorFindings(at: { namespace: string; name: string }, { controllers }: ObservedCluster): Finding[] {
  const found = controllers.find(({ namespace, name }) => namespace === at.namespace && name === at.name);
  if (found === undefined || found.selector["app.kubernetes.io/name"] === "snapshot-controller") return [];
  const message = `the Deployment ${at.namespace}/${at.name} selects its Pods by other labels, and a selector is immutable`;
  const action = `Delete it first (snapshots wait meanwhile): kubectl delete deployment --namespace ${at.namespace} ${at.name}`;
  return [{ ...conflict, message, action }];
}

/**
 * Reports objects of a removed controller. Pulumi's Kubernetes provider fails to create an object that exists, which
 * would abort the update.
 */
export function orphanFindings(
  { owners }: { owners: readonly string[] },
  plan: { controller: boolean },
  objects: readonly ObservedObject[],
): Finding[] {
  const others = objects.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  if (!plan.controller || others.length === 0) return [];
  const managers = [...new Set(others.map(({ manager }) => manager))].join(" and ");
  const message = `objects of a snapshot-controller already exist and belong to ${managers}: ${others.map(asText).join(", ")}`;
  return [
    {
      check: "snapshot-controller",
      code: "AlreadyExists",
      message,
      action: `Delete them first: ${removal(others)}`,
      level: "error",
    },
  ];
}

/** The command that deletes all objects. */
export function removal(objects: readonly ObservedObject[]): string {
  const namespace = objects.find((one) => one.namespace !== undefined)?.namespace;
  return [
    "kubectl delete",
    ...(namespace === undefined ? [] : ["--namespace", namespace]),
    ...objects.map(asText),
  ].join(" ");
}

function asText({ kind, name }: ObservedObject): string {
  return `${kind.toLowerCase()}/${name}`;
}

/**
 * Whether a VolumeSnapshot or VolumeSnapshotContent violates the validation rules of external-snapshotter's CRDs since
 * v8. Existing objects that do stay, but cannot be changed.
 */
export function breaksRules(object: unknown): boolean {
  const { kind, spec } = Old.parse(object);
  const { source, volumeSnapshotRef, volumeSnapshotClassName } = spec;
  if (kind === "VolumeSnapshotContent") {
    const isBound = isThere(volumeSnapshotRef?.name) && isThere(volumeSnapshotRef?.namespace);
    return !isBound || isThere(source.volumeHandle) === isThere(source.snapshotHandle);
  }
  return (
    volumeSnapshotClassName === "" ||
    isThere(source.persistentVolumeClaimName) === isThere(source.volumeSnapshotContentName)
  );
}

/** The rules check whether a field is set, not its value. */
function isThere(field: string | undefined): boolean {
  return field !== undefined;
}

const Text = z.string().optional();
const Old = z.looseObject({
  kind: z.string(),
  spec: z.looseObject({
    source: z
      .looseObject({
        persistentVolumeClaimName: Text,
        volumeSnapshotContentName: Text,
        volumeHandle: Text,
        snapshotHandle: Text,
      })
      .default({}),
    volumeSnapshotRef: z.looseObject({ name: Text, namespace: Text }).optional(),
    volumeSnapshotClassName: Text,
  }),
});
