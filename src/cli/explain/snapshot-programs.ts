import { type LeaseObject } from "../../kube/lease.ts";
import { type Read, valueOf } from "./facts.ts";
import { secondsSince } from "./time.ts";
import type { SnapshotPrograms } from "./volume-facts.ts";

/** Describes the snapshot-controller as the API shows it, as the end of a sentence. */
export function controllerSign({ controller }: SnapshotPrograms, now: Date): string {
  return leaseSign(controller, "snapshot-controller-leader", now);
}

/** Describes the driver and its sidecar as the API shows them, as the end of a sentence. */
export function sidecarSign({ driver, sidecar }: SnapshotPrograms, driverName: string, now: Date): string {
  const isMissing = "value" in driver && driver.value === undefined;
  const ofLease = leaseSign(sidecar, sidecarLease(driverName), now);
  return isMissing ? `; the cluster has no CSIDriver ${driverName}${ofLease}` : ofLease;
}

/** csi-lib-utils makes a name of a driver's name in this way. */
export function sidecarLease(driverName: string): string {
  return `external-snapshotter-leader-${driverName.replaceAll(/[^a-zA-Z0-9-]/g, "-")}`;
}

function leaseSign(read: Read<LeaseObject>, name: string, now: Date): string {
  if ("unknown" in read) return "";
  const spec = valueOf(read)?.spec;
  if (spec === undefined) return `; no process has the Lease ${name}`;
  const { holderIdentity, renewTime, leaseDurationSeconds } = spec;
  if (holderIdentity == null || holderIdentity === "") return `; the Lease ${name} is released`;
  const seconds = Math.max(0, Math.round(secondsSince(renewTime ?? undefined, now)));
  return seconds > (leaseDurationSeconds ?? 15)
    ? `; ${holderIdentity} has not renewed the Lease ${name} for ${seconds} s`
    : `, although ${holderIdentity} renewed the Lease ${name} ${seconds} s ago`;
}
