import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import { contentAnnotations, volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import type { Claim } from "../../kube/volumes/volumes.ts";
import { explainDriverError, refusalIn, sizesIn } from "./csi-texts.ts";
import { completed, type Explanation, firstOf, type Found, type Rule } from "./explanation.ts";
import { secondsSince, valueOf } from "./facts.ts";
import {
  at,
  beingDeleted,
  type ClaimFacts,
  hasFinalizer,
  heldBy,
  isProvisioning,
  lastEventOf,
  phaseOfDeletion,
  retriedBy,
} from "./volume-facts.ts";
import { explainVolumeSnapshot } from "./volume-snapshot-rules.ts";
import { resultOr } from "../../base/errors.ts";

export function explainVolumeClaim(facts: ClaimFacts): Explanation {
  const { claim, now } = facts;
  const { deletionTimestamp, creationTimestamp } = claim.metadata;
  const isDeleted = deletionTimestamp !== undefined;
  const found = isDeleted ? (deletionRules(facts) ?? beingDeleted) : (rules(facts) ?? pending);
  const retry = retriedBy(isDeleted ? "The controller" : "The provisioner", now);
  return {
    ...completed(found, { since: deletionTimestamp ?? creationTimestamp, retry }),
    phase: isDeleted ? phaseOfDeletion(deletionTimestamp, now) : (claim.status?.phase ?? "Pending"),
    lastEvent: lastEventOf(facts.events),
  };
}

const pending: Found = { state: "waiting", reason: "Pending", cause: "The provisioner is creating its volume" };

const rules: Rule<ClaimFacts> = firstOf(
  bound,
  lost,
  tooSmall,
  otherDriver,
  otherMode,
  missingSnapshot,
  unreadySnapshot,
  unusedClaim,
  failing,
  silentProvisioner,
);

function bound({ claim: { spec, status } }: ClaimFacts): Found | undefined {
  if (status?.phase !== "Bound") return undefined;
  return { state: "healthy", cause: `It is bound to the PersistentVolume ${spec.volumeName ?? ""}` };
}

function lost({ claim }: ClaimFacts): Found | undefined {
  if (claim.status?.phase !== "Lost") return undefined;
  return {
    state: "failed",
    reason: "Lost",
    cause: `Its PersistentVolume ${claim.spec.volumeName ?? ""} no longer exists`,
    retry: "None: a lost claim stays so",
    action: `Restore a snapshot into another claim, and delete this one: kubectl delete pvc ${at(claim)}`,
  };
}

/** The provisioner compares both in bytes, and so does Ramet. */
function tooSmall(facts: ClaimFacts): Found | undefined {
  const { claim, restored, restoredName = "" } = facts;
  const found = missingSize(claim, restored?.snapshot.status?.restoreSize) ?? sizesIn(failureOf(facts));
  if (found === undefined) return undefined;
  return {
    reason: "SizeTooSmall",
    cause: `It requests ${found.requested}, and the snapshot ${restoredName} needs at least ${found.needed}`,
    action: `Delete the claim, and create it again with spec.resources.requests.storage: ${found.needed}`,
  };
}

/** Such as EKS' own driver and that of Auto Mode, which name the same disks differently. */
function otherDriver(facts: ClaimFacts): Found | undefined {
  const provisioner = valueOf(facts.storageClass)?.provisioner;
  const driver = contentOf(facts)?.spec.driver;
  const differs = driver !== undefined && provisioner !== undefined && driver !== provisioner;
  if (!differs && refusalIn(failureOf(facts)) !== "DifferentDriver") return undefined;
  const ofSnapshot = driver ?? "of the snapshot";
  const ofClass = provisioner ?? "of another class";
  return {
    reason: "DifferentDriver",
    cause: `The snapshot ${facts.restoredName ?? ""} is of the driver ${ofSnapshot}, and the StorageClass ${facts.claim.spec.storageClassName ?? ""} uses the driver ${ofClass}`,
    action: `Create the claim again with a StorageClass of the driver ${ofSnapshot}, or import the snapshot's handle for ${ofClass} with a VolumeSnapshotContent`,
  };
}

function contentOf({ restored }: ClaimFacts) {
  return restored && valueOf(restored.content);
}

function otherMode(facts: ClaimFacts): Found | undefined {
  if (refusalIn(failureOf(facts)) !== "VolumeModeChange") return undefined;
  const content = contentOf(facts);
  return {
    reason: "VolumeModeChange",
    cause: `It requests the volumeMode ${facts.claim.spec.volumeMode ?? "Filesystem"}, and the snapshot is of ${content?.spec.sourceVolumeMode ?? "another mode"}`,
    action: `Create the claim again with the mode of the snapshot, or allow the change: kubectl annotate volumesnapshotcontent ${content?.metadata.name ?? "NAME"} ${contentAnnotations.allowModeChange}=true`,
  };
}

function missingSnapshot(facts: ClaimFacts): Found | undefined {
  const { restoredName: name, restored, claim } = facts;
  if (name === undefined || restored !== undefined || refusalIn(failureOf(facts)) !== "SnapshotMissing")
    return undefined;
  return {
    reason: "SnapshotMissing",
    cause: `The VolumeSnapshot ${name} does not exist in namespace ${claim.metadata.namespace ?? ""}`,
    action: `Create the VolumeSnapshot ${name}, or delete the claim and name another one: kubectl delete pvc ${at(claim)}`,
  };
}

function unreadySnapshot({ claim, restored, now }: ClaimFacts): Found | undefined {
  if (restored === undefined) return undefined;
  const found = explainVolumeSnapshot(restored);
  if (found.state === "healthy" || found.state === "degraded") return undefined;
  const { name } = restored.snapshot.metadata;
  const isItself = found.foundIn === `pvc/${claim.metadata.name}`;
  return {
    ...found,
    cause: `The VolumeSnapshot ${name} that it restores is not ready. ${found.cause}`,
    since: claim.metadata.creationTimestamp,
    retry: retriedBy("The provisioner", now),
    foundIn: isItself || found.foundIn === undefined ? `volumesnapshot/${name}` : found.foundIn,
  };
}

function unusedClaim({ claim, storageClass, events }: ClaimFacts): Found | undefined {
  const waits = valueOf(storageClass)?.volumeBindingMode === "WaitForFirstConsumer";
  const isNoted = valueOf(events)?.[0]?.reason === "WaitForFirstConsumer";
  const isSelected = claim.metadata.annotations?.["volume.kubernetes.io/selected-node"] !== undefined;
  if (isSelected || !(waits || isNoted)) return undefined;
  return {
    state: "waiting",
    reason: "WaitForFirstConsumer",
    cause: `It gets a volume when a Pod uses it: the StorageClass ${claim.spec.storageClassName ?? ""} has the volumeBindingMode WaitForFirstConsumer`,
    retry: "The scheduler selects a node for it with its first Pod",
    action: "Create a Pod that uses the claim",
  };
}

function failing(facts: ClaimFacts): Found | undefined {
  const message = failureOf(facts);
  return message === "" ? undefined : explainDriverError(message);
}

function silentProvisioner({ claim, now, storageClass }: ClaimFacts): Found | undefined {
  if (secondsSince(claim.metadata.creationTimestamp, now) < provisionSeconds) return undefined;
  const name = claim.spec.storageClassName;
  if (name !== undefined && "value" in storageClass && storageClass.value === undefined)
    return {
      reason: "StorageClassMissing",
      cause: `Its StorageClass ${name} does not exist`,
      action: `Create the StorageClass ${name}, or delete the claim and name another one: kubectl delete pvc ${at(claim)}`,
    };
  const provisioner = valueOf(storageClass)?.provisioner;
  return {
    reason: "ProvisionerSilent",
    cause: `No provisioner has reported on it${provisioner === undefined ? "" : `, and ${provisioner} should`}`,
    action: "Start the controller of the driver with external-provisioner, and read its log",
  };
}

const provisionSeconds = 60;

/** The last failure that the provisioner reported; empty if there is none. */
function failureOf({ events }: ClaimFacts): string {
  return valueOf(events)?.find(({ reason }) => reason === "ProvisioningFailed")?.note ?? "";
}

/** Compares the requested size with the one that the restored snapshot needs. Undefined if it is enough. */
function missingSize({ spec }: Claim, restoreSize: string | undefined): ReturnType<typeof sizesIn> {
  const requested = spec.resources?.requests?.["storage"];
  const [has, needs] = [bytesOf(requested), bytesOf(restoreSize)];
  if (requested === undefined || has === undefined || needs === undefined || has >= needs) return undefined;
  return { requested: String(requested), needed: bytesToQuantity(needs) };
}

function bytesOf(quantity: string | number | undefined): number | undefined {
  return resultOr(() => (quantity === undefined ? undefined : quantityToBytes(quantity)), undefined);
}

const deletionRules: Rule<ClaimFacts> = firstOf(
  leakingVolume,
  unreadySnapshots,
  orphanedSource,
  usedByPod,
  ({ claim }) => heldBy(claim.metadata.finalizers?.[0]),
);

/**
 * external-provisioner#1449, until 6.2: a provisioner that had called the driver gives up when the snapshot is deleted, and nobody
 * deletes the volume.
 */
function leakingVolume({ claim, restored, restoredName, events }: ClaimFacts): Found | undefined {
  const isDeleted = restored === undefined || restored.snapshot.metadata.deletionTimestamp !== undefined;
  const isProtected = restored !== undefined && hasFinalizer(restored.snapshot, volumeFinalizers.restoring);
  const hasTried = valueOf(events)?.some(({ reason }) => reason === "Provisioning" || reason === "ProvisioningFailed");
  if (restoredName === undefined || !isDeleted || isProtected || !isProvisioning(claim) || hasTried !== true)
    return undefined;
  return {
    reason: "VolumeMayLeak",
    cause: `It was deleted together with the VolumeSnapshot ${restoredName} while its volume was created, so that the storage may keep a volume that nothing knows`,
    action: `When the claim is gone, look in the storage for the volume pvc-${claim.metadata.uid}, and delete it if no PersistentVolume names it; external-provisioner 6.2 or later prevents this`,
  };
}

/** azuredisk-csi-driver#2670. */
function unreadySnapshots({ claim, snapshots }: ClaimFacts): Found | undefined {
  if (!hasFinalizer(claim, volumeFinalizers.source)) return undefined;
  const { name, namespace = "" } = claim.metadata;
  const names = (valueOf(snapshots) ?? [])
    .filter(({ spec, status }) => spec?.source.persistentVolumeClaimName === name && status?.readyToUse !== true)
    .map(({ metadata }) => metadata.name);
  const [first] = names;
  if (first === undefined) return undefined;
  const are = names.length === 1 ? "is" : "are";
  return {
    reason: "SnapshotsNotReady",
    cause: `Its deletion waits for ${names.length} of its VolumeSnapshots that ${are} not ready: ${names.slice(0, 5).join(", ")}`,
    action: `Find out what the snapshot waits for, or delete it: ramet explain volumesnapshot/${first} -n ${namespace}`,
    foundIn: `volumesnapshot/${first}`,
  };
}

function orphanedSource({ claim, snapshots }: ClaimFacts): Found | undefined {
  if (!hasFinalizer(claim, volumeFinalizers.source)) return undefined;
  if ("unknown" in snapshots)
    return {
      reason: "SnapshotsNotReady",
      cause: "Its deletion waits until all its VolumeSnapshots are ready",
      action: "Ask a user with the right to list the VolumeSnapshots of the namespace which of them are not ready",
    };
  return {
    reason: "SnapshotControllerSilent",
    cause: `Its deletion waits for the finalizer ${volumeFinalizers.source}, although all its VolumeSnapshots are ready or gone`,
    action:
      "Start the snapshot-controller, which removes the finalizer: kubectl get pods -A | grep snapshot-controller",
  };
}

function usedByPod({ claim }: ClaimFacts): Found | undefined {
  if (!hasFinalizer(claim, "kubernetes.io/pvc-protection")) return undefined;
  return {
    state: "waiting",
    reason: "ClaimInUse",
    cause: "Its deletion waits until no Pod uses it",
    retry: "Kubernetes removes it when the last Pod has ended",
    action: `See which Pods use it: kubectl describe pvc ${at(claim)}`,
  };
}
