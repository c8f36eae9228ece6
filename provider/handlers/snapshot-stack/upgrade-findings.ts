import * as z from "zod";
import { checkNamed, type Finding, listed, refusal } from "../../../src/preflight/finding.ts";
import { removedVersions, removeWebhook } from "../../../src/preflight/snapshot-checks.ts";
import { crdNames } from "../../../src/preflight/snapshot-objects.ts";
import { asText, removal } from "./observed-cluster.ts";
import type { Situation } from "./stack-parts.ts";

/**
 * Reports what prevents an upgrade of external-snapshotter to v8.6, from the changelogs of v7.0 to v8.6. Nothing is
 * repaired automatically, because each repair deletes something or interrupts a service.
 */
export function* upgradeFindings(at: Situation): Generator<Finding> {
  const { request, plan, observed } = at;
  yield* crdUpgradeFindings(at);
  // A webhook without a server rejects every snapshot.
  for (const { name, isUpstreams } of plan.crds || plan.controller ? observed.webhooks : []) {
    const validates = `the ValidatingWebhookConfiguration ${name} validates snapshots`;
    yield isUpstreams
      ? conflict(
          `${validates}, but external-snapshotter has no such webhook since v8.2`,
          `Delete it before you delete its server: kubectl delete validatingwebhookconfiguration ${name}`,
        )
      : warning(`${validates}; it may reject all of them while its server is unavailable`, "Keep it if you need it");
  }
  if (plan.crds && observed.breakingRules.length > 0) {
    // Such objects can be read, but not changed, not even to finish their deletion.
    yield conflict(
      `existing objects violate the rules of the CRDs of v8.6 and could no longer be changed: ${listed(observed.breakingRules)}`,
      "Repair or delete each object: it needs exactly one source and no empty class name; a content needs the name and namespace of its snapshot",
    );
  }
  if (plan.controller) yield* controllerUpgradeFindings(request.controller, observed);
}

function* crdUpgradeFindings({ plan, observed: { server, crds } }: Situation): Generator<Finding> {
  if (plan.crds && lacksRules(server)) {
    const message = `the API server has the version ${server}, but the CRDs of external-snapshotter v8 need Kubernetes 1.25`;
    yield conflict(message, "Upgrade the cluster to a newer version first");
  }
  const declared = [...(plan.crds ? crdNames.core : []), ...(plan.groupCrds ? crdNames.group : [])];
  const existing = crds.filter(({ name }) => declared.includes(name));
  for (const { name, stored } of existing) {
    // An API server rejects a CRD that lacks a stored version.
    const missing = removedVersions({ name, stored }).join(", ");
    if (missing === "") continue;
    yield conflict(
      `objects of ${name} may be stored as ${missing}, which v8.6 no longer has`,
      `If there are no such objects, run: kubectl delete crd ${name}; otherwise rewrite each object with a served version, then remove ${missing} from the CRD's status.storedVersions`,
    );
  }
  // v8.4 and v8.5 had a conversion webhook that v8.6 does not have.
  for (const { name } of existing.filter(({ hasConversionWebhook }) => hasConversionWebhook)) {
    const message = `the CRD ${name} uses a conversion webhook that v8.6 does not have`;
    yield conflict(message, `Remove it with: ${removeWebhook(name)}`);
  }
}

function conflict(message: string, action: string): Finding {
  return refusal("snapshot-upgrade", "Conflict", message, action);
}

function warning(message: string, action: string): Finding {
  return checkNamed("snapshot-upgrade").warning(message, action);
}

/** The validation rules need Kubernetes 1.25. */
function lacksRules(server: string): boolean {
  const [, major = "1", minor = "99"] = /^v?(\d+)\.(\d+)/.exec(server) ?? [];
  return Number(major) <= 1 && Number(minor) < 25;
}

function* controllerUpgradeFindings(
  at: { namespace: string; name: string },
  { crds, controllers }: Situation["observed"],
): Generator<Finding> {
  if (crds.some(({ name, hasRules }) => name.startsWith("volumesnapshotcontents.") && !hasRules)) {
    // `--prevent-volume-mode-conversion` is the default since v7.
    yield warning(
      "since external-snapshotter v7 a restore that changes a volume's mode (Filesystem, Block) is rejected",
      "To allow it, annotate the VolumeSnapshotContent with snapshot.storage.kubernetes.io/allow-volume-mode-change=true",
    );
  }
  // A Deployment's selector is immutable. Until v7 upstream used the label `app`.
  const found = controllers.find(({ namespace, name }) => namespace === at.namespace && name === at.name);
  if (found === undefined || found.selector["app.kubernetes.io/name"] === "snapshot-controller") return;
  yield conflict(
    `the Deployment ${at.namespace}/${at.name} selects its Pods by other labels, and a selector is immutable`,
    `Delete it first (snapshots wait meanwhile): kubectl delete deployment --namespace ${at.namespace} ${at.name}`,
  );
}

/**
 * Reports objects of a removed controller. Pulumi's Kubernetes provider fails to create an object that exists, which
 * would abort the update.
 */
export function* orphanFindings({ request, plan, observed }: Situation): Generator<Finding> {
  const others = observed.controllerObjects.filter(({ declaredBy = "" }) => !request.owners.includes(declaredBy));
  if (!plan.controller || others.length === 0) return;
  const managers = [...new Set(others.map(({ manager }) => manager))].join(" and ");
  const message = `objects of a snapshot-controller already exist and belong to ${managers}: ${others.map(asText).join(", ")}`;
  yield refusal("snapshot-controller", "AlreadyExists", message, `Delete them first: ${removal(others)}`);
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
