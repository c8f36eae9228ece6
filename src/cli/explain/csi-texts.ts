import { defined } from "../../base/defined.ts";
import { visible } from "../../base/visible.ts";
import { type Explanation, type Found, withoutStop } from "./explanation.ts";

/**
 * The texts of CSI drivers and their clouds, of external-snapshotter v8.7 (pkg/common-controller/snapshot_controller.go) and of
 * external-provisioner v6.3, as statuses and Events contain them. Nothing else reads these texts.
 */
const blockWords = {
  SnapshotClassMissing:
    /volumesnapshotclass\.snapshot\.storage\.k8s\.io \\*"[^"\\]+\\*" not found|failed to get snapshot class \S+ for/,
  SeveralDefaultClasses: /(\d+) default snapshot classes were found/,
  NoDefaultClass: /cannot find default (?:group )?snapshot class/,
  SourceDeleting: /cannot add finalizer on claim because it is being deleted/,
  SourceNotBound: /not yet bound to a PV, will not attempt/,
  SourceNotCsi: /cannot find CSI PersistentVolumeSource|snapshotting non-CSI volumes is not supported/,
  SourceMissing:
    /failed to retrieve PVC (\S+) from the lister|cannot get claim from snapshot|for group snapshot not applied to any PVC/,
} as const;

/** Why the snapshot-controller does not ask the driver for a snapshot. */
export type Block = keyof typeof blockWords;

const classBlocks: ReadonlySet<Block | undefined> = new Set([
  "SnapshotClassMissing",
  "SeveralDefaultClasses",
  "NoDefaultClass",
]);

export function blockIn(message: string): Block | undefined {
  return matching(blockWords, message);
}

export function isBlockedByClass(message: string): boolean {
  return classBlocks.has(blockIn(message));
}

/** How many default classes the snapshot-controller found. */
export function defaultsIn(message: string): string {
  return blockWords.SeveralDefaultClasses.exec(message)?.[1] ?? "several";
}

export function isMisbound(message: string): boolean {
  return /is bound to a different snapshot|is not bound to the VolumeSnapshot correctly|VolumeSnapshotRef does not match/.test(
    message,
  );
}

/** Whether the note of an Event says that a deletion waits for a restore. */
export function isInUse(note: string): boolean {
  return note.includes("being used to restore a PVC");
}

const provisionerWords = {
  SizeTooSmall: /requested volume size (\d+) is less than the size (\d+)/,
  DifferentDriver: /not handled by CSI driver of StorageClass|handled by a different CSI driver than requested/,
  VolumeModeChange: /modifies the mode of the source volume but does not have permission/,
  SnapshotMissing: /error getting snapshot \S+ from api server: .* not found/,
} as const;

/** Why external-provisioner refuses a claim. */
export function refusalIn(message: string): keyof typeof provisionerWords | undefined {
  return matching(provisionerWords, message);
}

/** The requested and the needed size, in bytes. */
export function sizesIn(message: string): { requested: string; needed: string } | undefined {
  const [, requested, needed] = provisionerWords.SizeTooSmall.exec(message) ?? [];
  return requested === undefined || needed === undefined ? undefined : { requested, needed };
}

function matching<Reason extends string>(words: Readonly<Record<Reason, RegExp>>, text: string): Reason | undefined {
  return (Object.keys(words) as Reason[]).find((reason) => words[reason].test(text));
}

/** An error of a driver or its cloud with a known remedy. */
interface KnownError extends Partial<Pick<Explanation, "state" | "retry">> {
  words: RegExp;
  reason: string;
  /** Precedes what the driver says. */
  cause: string;
  action: string;
}

const untilRaised = "Nothing helps until something is deleted or the quota is raised, although it is tried again";

const knownErrors: readonly KnownError[] = [
  {
    // EBS takes about one snapshot of a volume in 15 s (aws-ebs-csi-driver#1608).
    words: /SnapshotCreationPerVolumeRateExceeded/,
    reason: "CaptureRateExceeded",
    state: "waiting",
    cause:
      "The cloud takes no more snapshots of this volume now, as they were requested too quickly one after the other",
    action:
      "Leave at least 15 s between snapshots of one volume; if the errors repeat without pauses, upgrade csi-snapshotter to 8.0 or later",
  },
  {
    words: /exceeded quota: /,
    reason: "QuotaExceeded",
    cause: "A ResourceQuota of the namespace is used up",
    retry: untilRaised,
    action: "Delete what is no longer needed, or raise the quota: kubectl describe resourcequota",
  },
  {
    words:
      /QUOTA_EXCEEDED|Quota '[^']+' exceeded|SnapshotLimitExceeded|QuotaExceeded|quota (?:has been |was )?exceeded/i,
    reason: "CloudQuotaExceeded",
    cause: "A quota of the cloud is used up",
    retry: untilRaised,
    action: "Delete snapshots that are no longer needed, or ask the cloud for a higher quota",
  },
  {
    // AmazonEBSCSIDriverPolicyV2 of April 2026 allows only what carries the driver's tag (aws-ebs-csi-driver#2918).
    words: /UnauthorizedOperation|AccessDenied/,
    reason: "StorageForbidden",
    cause: "The driver's cloud identity is not allowed to do this",
    action:
      "Tag the source volume and the snapshot with ebs.csi.aws.com/cluster=true, which AmazonEBSCSIDriverPolicyV2 requires, or attach a policy to the driver's role that allows the named action",
  },
  {
    words: /AuthorizationFailed|PERMISSION_DENIED|code = PermissionDenied|Forbidden\.RAM/,
    reason: "StorageForbidden",
    cause: "The driver's cloud identity is not allowed to do this",
    action: "Grant the named permission to the cloud identity of the driver",
  },
  {
    words:
      /client throttled|RESOURCE_OPERATION_RATE_EXCEEDED|RequestLimitExceeded|Throttling|TooManyRequests|\b429\b|ResourceExhausted/,
    reason: "CloudThrottled",
    state: "waiting",
    cause: "The cloud throttles the driver",
    action:
      "Wait; if many snapshots or restores run, start fewer at a time, and restore from several identical snapshots rather than from one",
  },
  {
    // Not final: the sidecar waits for the answer, so that no snapshot of the storage is lost.
    words: /code = (?:DeadlineExceeded|Unavailable|Canceled|Aborted)/,
    reason: "DriverUnanswered",
    cause: "The driver has not finished the call",
    action: "Check that the driver runs and reaches its storage: read the log of its controller Pod",
  },
];

const unknownError: Omit<KnownError, "words"> = {
  reason: "DriverError",
  cause: "The driver reports an error",
  action: "Correct what the error names; the log of the driver's controller Pod may say more",
};

/** Explains an error that a driver or a cloud answered. Those without a known remedy are repeated as they are. */
export function explainDriverError(message: string): Found & { reason: string } {
  const {
    cause,
    reason,
    action,
    state = "stuck",
    retry,
  } = knownErrors.find(({ words }) => words.test(message)) ?? unknownError;
  const [, seconds] = /RetryAfter:?\s*(\d{1,6})/i.exec(message) ?? [];
  const pause = reason === "CloudThrottled" && seconds !== undefined ? ` for ${seconds} s` : "";
  return { state, reason, cause: `${cause}${pause}: ${recorded(message)}`, action, ...defined({ retry }) };
}

/**
 * A text that a driver or a controller recorded in a status or an Event, for a sentence. Such a text is not trusted: it becomes one
 * line without control characters, and is cut after 300 characters. Stack traces and encoded messages of clouds are longer.
 */
export function recorded(text: string | null | undefined): string {
  const line = withoutStop(visible((text ?? "").slice(0, mostRead).replace(/\s+/g, " ")));
  return line.length <= mostShown ? line : `${line.slice(0, mostShown - 1)}…`;
}

const mostShown = 300;

/** The characters that are read. The rest is ignored. */
const mostRead = 10_000;
