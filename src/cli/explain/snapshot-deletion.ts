import { deleting as deletingContent } from "./content-rules.ts";
import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { valueOf } from "./facts.ts";
import { recorded } from "./recorded-text.ts";
import { controllerSign } from "./snapshot-programs.ts";
import {
  contentFactsOf,
  hasFinalizer,
  isProvisioning,
  refersTo,
  restores,
  type VolumeSnapshotFacts,
} from "./volume-facts.ts";
import { volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import { isLate } from "./volume-phase.ts";
import { retriedBy, touch } from "./volume-retry.ts";

/** Explains what the deletion of a VolumeSnapshot waits for; undefined if it is not being deleted. Pure. */
export const deletingSnapshot: Rule<VolumeSnapshotFacts> = (facts) =>
  facts.snapshot.metadata.deletionTimestamp === undefined ? undefined : rules(facts);

const rules: Rule<VolumeSnapshotFacts> = firstOf(
  member,
  deadlock,
  restoring,
  orphanedFinalizer,
  contentInDeletion,
  foreignFinalizer,
  silentController,
  ongoing,
);

function member(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot } = facts;
  const group = snapshot.status?.volumeGroupSnapshotName;
  if (!hasFinalizer(snapshot, volumeFinalizers.inGroup) && group === undefined) return undefined;
  const named = group ?? "NAME";
  return {
    ...held(facts, "SnapshotInGroup"),
    cause: `It is a member of the VolumeGroupSnapshot ${group ?? ""}, whose members are deleted only together`,
    action: `Delete the group: kubectl delete volumegroupsnapshot ${named} -n ${snapshot.metadata.namespace ?? ""}`,
    foundIn: `volumegroupsnapshot/${named}`,
  };
}

/** external-snapshotter#747: the provisioner refuses a snapshot that is being deleted, and a waiting claim keeps the snapshot. */
function deadlock(facts: VolumeSnapshotFacts): Explanation | undefined {
  const claims = restoringClaims(facts);
  const { snapshot } = facts;
  const [first] = claims;
  if (first === undefined || hasFinalizer(snapshot, volumeFinalizers.restoring)) return undefined;
  const names = claims.slice(0, 5).join(" ");
  return {
    ...held(facts, "RestoreDeadlock"),
    cause: `Its deletion waits for the PersistentVolumeClaim ${names}, which restores it, and that claim waits because the snapshot is being deleted`,
    retry: "Both are tried again, without effect",
    action: `Delete the claim, and create it again from another snapshot: kubectl delete pvc ${names} -n ${snapshot.metadata.namespace ?? ""}`,
    foundIn: `pvc/${first}`,
  };
}

function restoring(facts: VolumeSnapshotFacts): Explanation | undefined {
  const [first] = restoringClaims(facts);
  const isNoted = (valueOf(facts.events) ?? []).some(({ note }) => /being used to restore a PVC/.test(note ?? ""));
  if (first === undefined && !(isNoted && "unknown" in facts.claims)) return undefined;
  return {
    ...held(facts, "SnapshotInUse"),
    state: "waiting",
    cause: `Its deletion waits until ${first === undefined ? "a PersistentVolumeClaim" : `the PersistentVolumeClaim ${first}`} is restored from it`,
    action:
      first === undefined
        ? "Find the Pending claim whose dataSource names the snapshot: kubectl get pvc"
        : `Find out what the claim waits for: ramet explain pvc/${first} -n ${facts.snapshot.metadata.namespace ?? ""}`,
    ...(first !== undefined && { foundIn: `pvc/${first}` }),
  };
}

/** external-provisioner#1507. The provisioner of 6.3 removes such finalizers every 5 minutes. */
function orphanedFinalizer(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, claims } = facts;
  if (!hasFinalizer(snapshot, volumeFinalizers.restoring) || "unknown" in claims) return undefined;
  const { name, namespace = "" } = snapshot.metadata;
  return {
    ...held(facts, "OrphanedFinalizer"),
    cause: `No claim of its namespace restores it, but its deletion waits for the finalizer ${volumeFinalizers.restoring}, which external-provisioner 6.2 leaves behind`,
    retry: "external-provisioner 6.3 or later removes it within 5 minutes; 6.2 never does",
    action: `Upgrade external-provisioner to 6.3, or remove the finalizer after another check: ramet explain volumesnapshot/${name} -n ${namespace} --remove-orphaned-finalizer`,
  };
}

function contentInDeletion(facts: VolumeSnapshotFacts): Explanation | undefined {
  const content = valueOf(facts.content);
  if (content === undefined || !refersTo(content, facts.snapshot)) return undefined;
  const found = deletingContent(contentFactsOf(facts, content));
  if (found === undefined) return undefined;
  return {
    ...found,
    cause: `Its deletion waits for its content ${content.metadata.name}. ${found.cause}`,
    foundIn: found.foundIn ?? `volumesnapshotcontent/${content.metadata.name}`,
  };
}

function foreignFinalizer(facts: VolumeSnapshotFacts): Explanation | undefined {
  const own: ReadonlySet<string> = new Set(Object.values(volumeFinalizers));
  const foreign = (facts.snapshot.metadata.finalizers ?? []).find((one) => !own.has(one));
  if (foreign === undefined) return undefined;
  return {
    ...held(facts, "Terminating"),
    cause: `Its deletion waits for the finalizer ${recorded(foreign)}`,
    retry: "The controller of the finalizer removes it when it has cleaned up",
    action: `Start the controller of ${recorded(foreign)}`,
  };
}

function silentController(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, now } = facts;
  const since = snapshot.metadata.deletionTimestamp ?? "";
  const { bound, asSource } = volumeFinalizers;
  if (!isLate(since, now) || !(hasFinalizer(snapshot, bound) || hasFinalizer(snapshot, asSource))) return undefined;
  return {
    ...held(facts, "SnapshotControllerSilent"),
    cause: `The snapshot-controller has not processed its deletion${controllerSign(facts, now)}`,
    retry: "The snapshot-controller processes it as soon as it runs",
    action: `Start the snapshot-controller: kubectl get pods -A | grep snapshot-controller; if it runs: ${touch("volumesnapshot", snapshot.metadata)}`,
  };
}

function ongoing(facts: VolumeSnapshotFacts): Explanation {
  return { ...held(facts, "Terminating"), state: "waiting", cause: "It is being deleted", action: nothingToDo };
}

function held({ snapshot, now }: VolumeSnapshotFacts, reason: string) {
  const since = snapshot.metadata.deletionTimestamp;
  return { state: "stuck", reason, since, retry: retriedBy("The snapshot-controller", now) } as const;
}

/** The names of the claims of its namespace whose volumes are in the making. The snapshot-controller looks for the same ones. */
function restoringClaims({ snapshot, claims }: VolumeSnapshotFacts): string[] {
  const { name, namespace = "" } = snapshot.metadata;
  return (valueOf(claims) ?? [])
    .filter((claim) => isProvisioning(claim) && restores(claim, { namespace, name }))
    .map(({ metadata }) => metadata.name);
}
