import { quantityToBytes } from "../base/quantity.ts";
import { keyOf } from "../kube/object.ts";
import type {
  ClusterFacts,
  SnapshotContentRecord,
  SnapshotControllerPod,
  SnapshotCrd,
  VolumeQuota,
  VolumeClass,
} from "./cluster-facts.ts";
import { type Check, checkNamed, type Finding, listed, isAtLeast } from "./finding.ts";
import { defaultClassAnnotation } from "../kube/volumes/snapshots.ts";

type Facts = Pick<ClusterFacts, "snapshots" | "now" | "namespace">;

/** Checks what VolumeSnapshots of the whole cluster depend on. Nothing if the cluster has none. */
export function checkSnapshots(facts: Facts): Finding[] {
  const { crds } = facts.snapshots;
  if ("value" in crds && crds.value.length === 0) return [];
  return [crdsFinding(facts), controllerFinding(facts), contentsFinding(facts), quotaFinding(facts), ...leaks(facts)];
}

function crdsFinding({ snapshots: { crds } }: Facts): Finding {
  const check = checkNamed("snapshot-crds");
  if ("unknown" in crds) return check.unread("The CRDs of VolumeSnapshots are", crds);
  const broken = crds.value.find(({ conversionService, hasService }) => conversionService !== undefined && !hasService);
  if (broken !== undefined) return brokenConversion(check, broken);
  const old = crds.value.find((crd) => removedVersions(crd).length > 0);
  if (old !== undefined) return oldVersions(check, old);
  const hasGroups = crds.value.some(({ name }) => isOfGroups(name));
  return check.ok(`The CRDs of VolumeSnapshots ${hasGroups ? "and of groups " : ""}can be upgraded`);
}

/** v8.4 and v8.5 ship a webhook that v8.6 drops: "service not found", "unexpected conversion version". */
function brokenConversion(check: Check, { name, conversionService }: SnapshotCrd): Finding {
  return check.warning(
    `Objects of ${name} cannot be read in every version: its conversion webhook calls the service ${conversionService ? keyOf(conversionService) : ""}, which does not exist`,
    `Remove the webhook: ${removeWebhook(name)}`,
  );
}

/** `status.storedVersions[0]: Invalid value: "v1alpha1": must appear in spec.versions` (external-snapshotter#1307). */
function oldVersions(check: Check, crd: SnapshotCrd): Finding {
  const removed = listed(removedVersions(crd));
  return check.warning(
    `An upgrade of external-snapshotter to 8.2 or later fails: objects of ${crd.name} may be stored as ${removed}, which it no longer has`,
    `If there are no such objects, delete the three CRDs of ${crd.name.replace(/^[^.]*\./, "")} first; otherwise write each object again, then remove ${removed} from the CRD's status.storedVersions`,
  );
}

/** The versions in which objects may be stored and that v8.6 and v8.7 no longer have. v8.2 removed v1alpha1 of groups. */
export function removedVersions({ name, stored }: Pick<SnapshotCrd, "name" | "stored">): string[] {
  const known = isOfGroups(name) ? ["v1", "v1beta1", "v1beta2"] : ["v1", "v1beta1"];
  return stored.filter((version) => !known.includes(version));
}

function isOfGroups(crd: string): boolean {
  return crd.endsWith(".groupsnapshot.storage.k8s.io");
}

/** The command that removes the conversion webhook of v8.4 and v8.5, which v8.6 does not have. */
export function removeWebhook(crd: string): string {
  return `kubectl patch crd ${crd} --type merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`;
}

function controllerFinding({ snapshots: { controllers, contents } }: Facts): Finding {
  const check = checkNamed("snapshot-controller");
  if ("unknown" in controllers) return check.unread("Whether the snapshot-controller works is", controllers);
  const [first] = controllers.value;
  if (first === undefined)
    return check.unknown(
      "No Pod of a snapshot-controller is visible, as where the cloud or a local cluster runs it",
      "If nobody runs one, install it, for example with the Pulumi component SnapshotStack",
    );
  const count = "value" in contents ? contents.value.length : 0;
  const worst = controllers.value.reduce((a, b) => (b.restarts > a.restarts ? b : a), first);
  if (worst.restarts < manyRestarts && count <= manyContents)
    return check.ok(`The snapshot-controller ${first.version} runs`);
  return overloaded(check, worst, count);
}

const manyRestarts = 5;
const manyContents = 10_000;

/** external-snapshotter#1344, #343; its start listed all objects in one request until 8.2 (#1238). */
function overloaded(check: Check, pod: SnapshotControllerPod, count: number): Finding {
  const { name, restarts, lastEnd, version } = pod;
  const end = lastEnd === undefined ? "" : `, last because of ${lastEnd}`;
  const isOld = !isAtLeast(version, "8.2");
  const upgrade = isOld ? "Upgrade external-snapshotter to 8.2 or later, then give" : "Give";
  return check.warning(
    `The snapshot-controller ${version} (${name}) is overloaded: it restarted ${restarts} times${end}, and the cluster has ${count} VolumeSnapshotContents`,
    `${upgrade} it more memory and --kube-api-qps=100 --kube-api-burst=200, and delete snapshots that are no longer needed`,
  );
}

/** The snapshot-controller never deletes a content whose VolumeSnapshot is absent, so that nobody loses data. */
function contentsFinding({ snapshots: { contents }, now }: Facts): Finding {
  const check = checkNamed("snapshot-contents");
  if ("unknown" in contents) return check.unread("Whether snapshots are orphaned is", contents);
  const orphans = contents.value.filter(({ isOrphan }) => isOrphan);
  if (orphans.length === 0)
    return check.ok(`Each of ${contents.value.length} VolumeSnapshotContents has its VolumeSnapshot`);
  return check.warning(
    `${orphans.length} of ${contents.value.length} VolumeSnapshotContents have no VolumeSnapshot, and their snapshots cost money: ${listed(orphans.map((one) => describe(one, now)))}`,
    "Adopt or delete each of them: ramet explain volumesnapshotcontent/NAME says how",
  );
}

function describe({ name, deletionPolicy, handle, createdAt, driver }: SnapshotContentRecord, now: Date): string {
  const days = Math.floor((now.getTime() - Date.parse(createdAt ?? "")) / 86_400_000);
  const age = Number.isNaN(days) ? "" : `, ${days} days old`;
  return `${name} (${driver} ${handle ?? "without a handle"}, ${deletionPolicy}${age})`;
}

function quotaFinding({ snapshots: { quotas }, namespace }: Facts): Finding {
  const check = checkNamed("snapshot-quota");
  if ("unknown" in quotas) return check.unread(`Whether quotas of ${namespace} allow more snapshots is`, quotas);
  const full = quotas.value.filter(isUsedUp);
  if (full.length === 0) return check.ok(`Quotas of ${namespace} allow more volumes and snapshots`);
  const names = listed(full.map(({ quota, resource, hard, used }) => `${quota} (${resource}: ${used} of ${hard})`));
  return check.warning(
    `Requests for volumes or snapshots in ${namespace} are refused, because quotas are used up: ${names}`,
    `Delete what is no longer needed, or raise the quota: kubectl describe resourcequota -n ${namespace}`,
  );
}

export function isUsedUp({ hard, used }: VolumeQuota): boolean {
  return quantityToBytes(used) >= quantityToBytes(hard);
}

/** Compares the storage's own list with the handles that contents know. Only a person knows whether another cluster has them. */
function leaks({ snapshots: { stored, contents }, now }: Facts): Finding[] {
  const check = checkNamed("snapshot-leaks");
  if (stored === undefined) return [];
  if ("unknown" in contents) return [check.unread("Which snapshots the cluster knows is", contents)];
  const known = new Set(contents.value.map(({ handle }) => handle));
  const leaked = stored.filter((one) => !known.has(one.handle) && !isFresh(one.createdAt, now));
  if (leaked.length === 0)
    return [check.ok(`The cluster knows all ${stored.length} snapshots of the list that are older than an hour`)];
  return [
    check.warning(
      `The cluster does not know ${leaked.length} of the ${stored.length} snapshots of the list: ${listed(leaked.map(({ handle }) => handle))}`,
      "Delete those in the storage that carry the tag of this cluster's driver and that no other cluster and no backup uses",
    ),
  ];
}

/** A snapshot that is being taken is not known yet. */
function isFresh(createdAt: string | undefined, now: Date): boolean {
  return createdAt !== undefined && now.getTime() - Date.parse(createdAt) < graceMilliseconds;
}

const graceMilliseconds = 3_600_000;

/** Checks which classes claims and VolumeSnapshots without a class get. A sandbox without volumes needs none of this. */
export function checkVolumes({ volumeClasses }: Pick<ClusterFacts, "volumeClasses">): Finding {
  const check = checkNamed("volumes");
  if ("unknown" in volumeClasses) return check.unread("The classes of volumes are", volumeClasses);
  const { storage, snapshots } = volumeClasses.value;
  const defaults = namesOf(storage.filter(({ isDefault }) => isDefault));
  if (defaults.length > 1)
    return check.warning(
      `Claims without a class get any of several default StorageClasses: ${listed(defaults)}`,
      `Let one be the default: kubectl annotate storageclass NAME ${defaultAnnotations.storage}-`,
    );
  const double = (snapshots ?? []).find(({ driver, name }) => hasOtherDefault(snapshots ?? [], { driver, name }));
  if (double !== undefined)
    return check.warning(
      `VolumeSnapshots without a class fail, because the driver ${double.driver} has several default VolumeSnapshotClasses`,
      `Let one be the default: kubectl annotate volumesnapshotclass NAME ${defaultAnnotations.snapshots}-`,
    );
  return check.ok(`${describeClaims(storage, defaults)}; ${describeSnapshots(snapshots)}`);
}

function hasOtherDefault(classes: readonly VolumeClass[], { driver, name }: { driver: string; name: string }): boolean {
  const defaults = classes.filter((one) => one.isDefault && one.driver === driver);
  return defaults.length > 1 && defaults.some((one) => one.name === name);
}

function describeClaims(storage: readonly VolumeClass[], [byDefault]: readonly string[]): string {
  if (byDefault !== undefined) return `Claims without a class get the StorageClass ${byDefault}`;
  if (storage.length === 0) return "The cluster has no StorageClass";
  return `Claims must name one of the StorageClasses ${listed(namesOf(storage))}`;
}

function describeSnapshots(snapshots: readonly VolumeClass[] | undefined): string {
  if (snapshots === undefined) return "it has no VolumeSnapshots";
  if (snapshots.length === 0) return "no driver has a VolumeSnapshotClass";
  return `VolumeSnapshots have classes of ${listed([...new Set(snapshots.map(({ driver }) => driver))])}`;
}

function namesOf(classes: readonly VolumeClass[]): string[] {
  return classes.map(({ name }) => name);
}

const defaultAnnotations = {
  storage: "storageclass.kubernetes.io/is-default-class",
  snapshots: defaultClassAnnotation,
} as const;
