import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { valueOf } from "./facts.ts";
import { type ClaimFacts, hasFinalizer, isProvisioning } from "./volume-facts.ts";
import { volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import { retriedBy } from "./volume-retry.ts";

/** Explains what the deletion of a claim waits for; undefined if it is not being deleted. Pure. */
export const deletingClaim: Rule<ClaimFacts> = (facts) =>
  facts.claim.metadata.deletionTimestamp === undefined ? undefined : rules(facts);

const rules: Rule<ClaimFacts> = firstOf(leakingVolume, unreadySnapshots, orphanedSource, usedByPod, other);

/**
 * external-provisioner#1449, until 6.2: a provisioner that had called the driver gives up when the snapshot is deleted, and nobody
 * deletes the volume.
 */
function leakingVolume(facts: ClaimFacts): Explanation | undefined {
  const { claim, restored, restoredName } = facts;
  const snapshot = restored?.snapshot.metadata;
  const isDeleted = restoredName !== undefined && (snapshot === undefined || snapshot.deletionTimestamp !== undefined);
  const isProtected = restored !== undefined && hasFinalizer(restored.snapshot, volumeFinalizers.restoring);
  const hasTried = (valueOf(facts.events) ?? []).some(({ reason }) => /^Provisioning(Failed)?$/.test(reason ?? ""));
  if (!isProvisioning(claim) || !isDeleted || isProtected || !hasTried) return undefined;
  return {
    ...held(facts, "VolumeMayLeak"),
    cause: `It was deleted together with the VolumeSnapshot ${restoredName} while its volume was created, so that the storage may keep a volume that nothing knows`,
    action: `When the claim is gone, look in the storage for the volume pvc-${claim.metadata.uid}, and delete it if no PersistentVolume names it; external-provisioner 6.2 or later prevents this`,
  };
}

/** azuredisk-csi-driver#2670. */
function unreadySnapshots(facts: ClaimFacts): Explanation | undefined {
  const { claim } = facts;
  if (!hasFinalizer(claim, volumeFinalizers.source) || "unknown" in facts.snapshots) return undefined;
  const names = (facts.snapshots.value ?? [])
    .filter(({ spec, status }) => isOf(spec?.source.persistentVolumeClaimName, claim) && status?.readyToUse !== true)
    .map(({ metadata }) => metadata.name);
  const [first] = names;
  if (first === undefined) return undefined;
  const are = names.length === 1 ? "is" : "are";
  return {
    ...held(facts, "SnapshotsNotReady"),
    cause: `Its deletion waits for ${names.length} of its VolumeSnapshots that ${are} not ready: ${names.slice(0, 5).join(", ")}`,
    action: `Find out what the snapshot waits for, or delete it: ramet explain volumesnapshot/${first} -n ${claim.metadata.namespace ?? ""}`,
    foundIn: `volumesnapshot/${first}`,
  };
}

function isOf(source: string | undefined, { metadata }: ClaimFacts["claim"]): boolean {
  return source === metadata.name;
}

function orphanedSource(facts: ClaimFacts): Explanation | undefined {
  if (!hasFinalizer(facts.claim, volumeFinalizers.source)) return undefined;
  const isKnown = "value" in facts.snapshots;
  return {
    ...held(facts, isKnown ? "SnapshotControllerSilent" : "SnapshotsNotReady"),
    cause: isKnown
      ? `Its deletion waits for the finalizer ${volumeFinalizers.source}, although all its VolumeSnapshots are ready or gone`
      : "Its deletion waits until all its VolumeSnapshots are ready",
    action: isKnown
      ? "Start the snapshot-controller, which removes the finalizer: kubectl get pods -A | grep snapshot-controller"
      : "Ask somebody who may list the VolumeSnapshots of the namespace which are not ready",
  };
}

function usedByPod(facts: ClaimFacts): Explanation | undefined {
  const { name, namespace = "", finalizers = [] } = facts.claim.metadata;
  if (!finalizers.includes("kubernetes.io/pvc-protection")) return undefined;
  return {
    ...held(facts, "ClaimInUse"),
    state: "waiting",
    cause: "Its deletion waits until no Pod uses it",
    retry: "Kubernetes removes it when the last Pod has ended",
    action: `See which Pods use it: kubectl describe pvc ${name} -n ${namespace}`,
  };
}

function other(facts: ClaimFacts): Explanation {
  const [finalizer] = facts.claim.metadata.finalizers ?? [];
  if (finalizer === undefined)
    return { ...held(facts, "Terminating"), state: "waiting", cause: "It is being deleted", action: nothingToDo };
  return {
    ...held(facts, "Terminating"),
    cause: `Its deletion waits for the finalizer ${finalizer}`,
    retry: "The controller of the finalizer removes it when it has cleaned up",
    action: `Start the controller of ${finalizer}`,
  };
}

function held({ claim, now }: ClaimFacts, reason: string) {
  const since = claim.metadata.deletionTimestamp;
  return { state: "stuck", reason, since, retry: retriedBy("The controller", now) } as const;
}
