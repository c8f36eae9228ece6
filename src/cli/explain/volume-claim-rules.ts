import type { Claim } from "../../kube/volumes/volumes.ts";
import { deletingClaim } from "./claim-deletion.ts";
import { explainDriverError } from "./driver-errors.ts";
import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { type EventFacts, valueOf } from "./facts.ts";
import { recorded } from "./recorded-text.ts";
import { secondsSince } from "./time.ts";
import { type ClaimFacts, lastEventOf } from "./volume-facts.ts";
import { contentAnnotations } from "../../kube/volumes/snapshots.ts";
import { isLate } from "./volume-phase.ts";
import { explainVolumeSnapshot } from "./volume-snapshot-rules.ts";
import { retriedBy } from "./volume-retry.ts";
import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";

/** Explains the state of a PersistentVolumeClaim. Pure. */
export function explainVolumeClaim(facts: ClaimFacts): Explanation {
  const found = rules(facts) ?? pending(facts);
  return { ...found, phase: phaseOfClaim(facts), lastEvent: lastEventOf(facts.events) };
}

function phaseOfClaim({ claim: { metadata, status }, now }: ClaimFacts): string {
  const { deletionTimestamp } = metadata;
  if (deletionTimestamp === undefined) return status?.phase ?? "Pending";
  return isLate(deletionTimestamp, now) ? "DeleteBlocked" : "Deleting";
}

const rules: Rule<ClaimFacts> = firstOf(
  deletingClaim,
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

function bound({ claim }: ClaimFacts): Explanation | undefined {
  if (claim.status?.phase !== "Bound") return undefined;
  return {
    state: "healthy",
    cause: `It is bound to the PersistentVolume ${claim.spec.volumeName ?? ""}`,
    since: claim.metadata.creationTimestamp,
    retry: "None is needed",
    action: nothingToDo,
  };
}

function lost({ claim }: ClaimFacts): Explanation | undefined {
  if (claim.status?.phase !== "Lost") return undefined;
  return {
    state: "failed",
    cause: `Its PersistentVolume ${claim.spec.volumeName ?? ""} no longer exists`,
    reason: "Lost",
    since: claim.metadata.creationTimestamp,
    retry: "None: a lost claim stays so",
    action: `Restore a snapshot into another claim, and delete this one: kubectl delete pvc ${at(claim)}`,
  };
}

/** `requested volume size … is less than the size … for the source snapshot`: both in bytes, so Ramet compares them itself. */
function tooSmall(facts: ClaimFacts): Explanation | undefined {
  const { claim, restored } = facts;
  const computed = missingSize(claim, restored?.snapshot.status?.restoreSize);
  const [, requested, needed] = /requested volume size (\d+) is less than the size (\d+)/.exec(failureOf(facts)) ?? [];
  const found = computed ?? (requested === undefined ? undefined : { requested, needed: needed ?? "" });
  if (found === undefined) return undefined;
  return {
    ...stuck(facts, "SizeTooSmall"),
    cause: `It requests ${found.requested}, and the snapshot ${facts.restoredName ?? ""} needs at least ${found.needed}`,
    action: `Delete the claim, and create it again with spec.resources.requests.storage: ${found.needed}`,
  };
}

/** Such as EKS' own driver and that of Auto Mode, which name the same disks differently. */
function otherDriver(facts: ClaimFacts): Explanation | undefined {
  const provisioner = valueOf(facts.storageClass)?.provisioner ?? "of another class";
  const driver = driverOfSnapshot(facts) ?? "of the snapshot";
  if (!differ(facts) && !differentDrivers.test(failureOf(facts))) return undefined;
  return {
    ...stuck(facts, "DifferentDriver"),
    cause: `The snapshot ${facts.restoredName ?? ""} is of the driver ${driver}, and the StorageClass ${facts.claim.spec.storageClassName ?? ""} uses the driver ${provisioner}`,
    action: `Create the claim again with a StorageClass of the driver ${driver}, or import the snapshot's handle for ${provisioner} with a VolumeSnapshotContent`,
  };
}

/** The words of external-provisioner v6.3; the second ones are in its log and in older versions. */
const differentDrivers = /not handled by CSI driver of StorageClass|handled by a different CSI driver than requested/;

function differ(facts: ClaimFacts): boolean {
  const [driver, provisioner] = [driverOfSnapshot(facts), valueOf(facts.storageClass)?.provisioner];
  return driver !== undefined && provisioner !== undefined && driver !== provisioner;
}

function driverOfSnapshot({ restored }: ClaimFacts): string | undefined {
  return restored && valueOf(restored.content)?.spec.driver;
}

function otherMode(facts: ClaimFacts): Explanation | undefined {
  if (!/modifies the mode of the source volume but does not have permission/.test(failureOf(facts))) return undefined;
  const content = facts.restored && valueOf(facts.restored.content);
  const { spec } = facts.claim;
  const name = content?.metadata.name ?? "NAME";
  return {
    ...stuck(facts, "VolumeModeChange"),
    cause: `It requests the volumeMode ${spec.volumeMode ?? "Filesystem"}, and the snapshot is of ${content?.spec.sourceVolumeMode ?? "another mode"}`,
    action: `Create the claim again with the mode of the snapshot, or allow the change: kubectl annotate volumesnapshotcontent ${name} ${contentAnnotations.allowModeChange}=true`,
  };
}

function missingSnapshot(facts: ClaimFacts): Explanation | undefined {
  const { restoredName: name, restored, claim } = facts;
  const isNamed = /error getting snapshot \S+ from api server: .* not found/.test(failureOf(facts));
  if (name === undefined || restored !== undefined || !isNamed) return undefined;
  return {
    ...stuck(facts, "SnapshotMissing"),
    cause: `The VolumeSnapshot ${name} does not exist in namespace ${claim.metadata.namespace ?? ""}`,
    action: `Create the VolumeSnapshot ${name}, or delete the claim and name another one: kubectl delete pvc ${at(claim)}`,
  };
}

function unreadySnapshot({ claim, restored, now }: ClaimFacts): Explanation | undefined {
  if (restored === undefined) return undefined;
  const found = explainVolumeSnapshot(restored);
  if (found.state === "healthy" || found.state === "degraded") return undefined;
  const { name } = restored.snapshot.metadata;
  return {
    ...found,
    cause: `The VolumeSnapshot ${name} that it restores is not ready. ${found.cause}`,
    since: claim.metadata.creationTimestamp,
    retry: retriedBy("The provisioner", now),
    foundIn:
      found.foundIn === `pvc/${claim.metadata.name}`
        ? `volumesnapshot/${name}`
        : (found.foundIn ?? `volumesnapshot/${name}`),
  };
}

function unusedClaim(facts: ClaimFacts): Explanation | undefined {
  const { claim, storageClass } = facts;
  const waits = valueOf(storageClass)?.volumeBindingMode === "WaitForFirstConsumer";
  const isNoted = eventsOf(facts)[0]?.reason === "WaitForFirstConsumer";
  const isSelected = claim.metadata.annotations?.["volume.kubernetes.io/selected-node"] !== undefined;
  if (isSelected || !(waits || isNoted)) return undefined;
  return {
    state: "waiting",
    cause: `It gets a volume when a Pod uses it: the StorageClass ${claim.spec.storageClassName ?? ""} has the volumeBindingMode WaitForFirstConsumer`,
    reason: "WaitForFirstConsumer",
    since: claim.metadata.creationTimestamp,
    retry: "The scheduler selects a node for it with its first Pod",
    action: "Create a Pod that uses the claim",
  };
}

function failing(facts: ClaimFacts): Explanation | undefined {
  const message = failureOf(facts);
  if (message === "") return undefined;
  const { claim, now } = facts;
  const since = claim.metadata.creationTimestamp;
  return explainDriverError({ message, since, who: "The provisioner", now });
}

function silentProvisioner(facts: ClaimFacts): Explanation | undefined {
  const { claim, now, storageClass } = facts;
  const { creationTimestamp } = claim.metadata;
  if (secondsSince(creationTimestamp, now) < provisionSeconds) return undefined;
  const name = claim.spec.storageClassName;
  const provisioner = valueOf(storageClass)?.provisioner;
  const isMissing = name !== undefined && "value" in storageClass && storageClass.value === undefined;
  return {
    ...stuck(facts, isMissing ? "StorageClassMissing" : "ProvisionerSilent"),
    cause: isMissing
      ? `Its StorageClass ${name} does not exist`
      : `No provisioner has reported on it${provisioner === undefined ? "" : `, and ${provisioner} should`}`,
    action: isMissing
      ? `Create the StorageClass ${name}, or delete the claim and name another one: kubectl delete pvc ${at(claim)}`
      : "Start the controller of the driver with external-provisioner, and read its log",
  };
}

const provisionSeconds = 60;

function pending({ claim, now }: ClaimFacts): Explanation {
  return {
    state: "waiting",
    cause: "The provisioner is creating its volume",
    reason: "Pending",
    since: claim.metadata.creationTimestamp,
    retry: retriedBy("The provisioner", now),
    action: nothingToDo,
  };
}

function stuck({ claim, now }: ClaimFacts, reason: string) {
  const since = claim.metadata.creationTimestamp;
  return { state: "stuck", reason, since, retry: retriedBy("The provisioner", now) } as const;
}

/** The last failure that the provisioner reported; empty if there is none. */
function failureOf(facts: ClaimFacts): string {
  return eventsOf(facts).find(({ reason }) => reason === "ProvisioningFailed")?.note ?? "";
}

function eventsOf({ events }: ClaimFacts): EventFacts[] {
  return valueOf(events) ?? [];
}

function at({ metadata }: Claim): string {
  return `${recorded(metadata.name)} -n ${metadata.namespace ?? ""}`;
}

/** The requested size of a claim and the size that the restored snapshot needs, if that is more. */
interface MissingSize {
  requested: string;
  needed: string;
}

/** Compares the sizes as external-provisioner does before it restores a snapshot. Pure. */
function missingSize({ spec }: Claim, restoreSize: string | undefined): MissingSize | undefined {
  const requested = spec.resources?.requests?.["storage"];
  const [has, needs] = [bytesOf(requested), bytesOf(restoreSize)];
  if (requested === undefined || has === undefined || needs === undefined || has >= needs) return undefined;
  return { requested: String(requested), needed: bytesToQuantity(needs) };
}

function bytesOf(quantity: string | number | undefined): number | undefined {
  try {
    return quantity === undefined ? undefined : quantityToBytes(quantity);
  } catch {
    return undefined;
  }
}
