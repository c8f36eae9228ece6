import { type Explanation, firstOf, type Rule } from "./explanation.ts";
import { recorded } from "./recorded-text.ts";
import { retriedBy } from "./volume-retry.ts";

/** An error that a driver or a cloud answered, as a sidecar recorded it. */
export interface DriverError {
  message: string;
  /** When the sidecar recorded it first. RFC 3339. */
  since: string | undefined;
  /** Who repeats the call: `The csi-snapshotter of the driver x`. */
  who: string;
  now: Date;
}

/** Recognizes errors with a known remedy. The others are repeated as they are. */
export function explainDriverError(error: DriverError): Explanation {
  return known(error) ?? other(error);
}

const known: Rule<DriverError> = firstOf(
  rateOfVolume,
  quotaOfNamespace,
  quotaOfCloud,
  forbidden,
  throttled,
  unanswered,
);

/** EBS takes about one snapshot of a volume in 15 s (aws-ebs-csi-driver#1608). */
function rateOfVolume(error: DriverError): Explanation | undefined {
  if (!/SnapshotCreationPerVolumeRateExceeded/.test(error.message)) return undefined;
  return {
    ...common(error, "CaptureRateExceeded"),
    state: "waiting",
    cause: "The cloud takes no more snapshots of this volume now: they were requested too quickly one after the other",
    action:
      "Leave at least 15 s between snapshots of one volume; if the errors repeat without pauses, upgrade csi-snapshotter to 8.0 or later",
  };
}

/** A ResourceQuota, in the words of the API server. */
function quotaOfNamespace(error: DriverError): Explanation | undefined {
  const [, name, requested = "", used = "", limited = ""] =
    /exceeded quota: ([^,]{1,253}), requested: (.{1,200}?), used: (.{1,200}?), limited: ([^"\s]{1,200})/.exec(
      error.message,
    ) ?? [];
  if (name === undefined) return undefined;
  return {
    ...common(error, "QuotaExceeded"),
    cause: recorded(
      `The ResourceQuota ${name} allows ${limited}, of which ${used} are used and ${requested} more is requested`,
    ),
    retry: "Nothing helps until something is deleted or the quota is raised, although it is tried again",
    action: `Delete what is no longer needed, or raise the quota: kubectl describe resourcequota ${recorded(name)}`,
  };
}

function quotaOfCloud(error: DriverError): Explanation | undefined {
  if (
    !/QUOTA_EXCEEDED|Quota '[^']+' exceeded|SnapshotLimitExceeded|QuotaExceeded|quota (?:has been |was )?exceeded/i.test(
      error.message,
    )
  )
    return undefined;
  return {
    ...common(error, "CloudQuotaExceeded"),
    cause: `A quota of the cloud is used up: ${recorded(error.message)}`,
    retry: "Nothing helps until snapshots are deleted or the quota is raised, although it is tried again",
    action: "Delete snapshots that are no longer needed, or ask the cloud for a higher quota",
  };
}

/** `AmazonEBSCSIDriverPolicyV2` of April 2026 allows only what carries the driver's tag (aws-ebs-csi-driver#2918). */
function forbidden(error: DriverError): Explanation | undefined {
  const { message } = error;
  if (
    !/AccessDenied|UnauthorizedOperation|AuthorizationFailed|PERMISSION_DENIED|code = PermissionDenied|Forbidden\.RAM/.test(
      message,
    )
  )
    return undefined;
  const isAws =
    /UnauthorizedOperation|AccessDenied|ec2|ebs/i.test(message) && !/azure|compute\.snapshots/i.test(message);
  return {
    ...common(error, "StorageForbidden"),
    cause: `The driver's cloud identity is not allowed to do this: ${recorded(message)}`,
    action: isAws
      ? "Tag the source volume and the snapshot with ebs.csi.aws.com/cluster=true, which AmazonEBSCSIDriverPolicyV2 requires, or attach a policy to the driver's role that allows the named action"
      : "Grant the named permission to the cloud identity of the driver",
  };
}

function throttled(error: DriverError): Explanation | undefined {
  const { message } = error;
  if (
    !/client throttled|RESOURCE_OPERATION_RATE_EXCEEDED|RequestLimitExceeded|Throttling|TooManyRequests|\b429\b|ResourceExhausted/.test(
      message,
    )
  )
    return undefined;
  const [, seconds] = /RetryAfter:?\s*(\d{1,6})/i.exec(message) ?? [];
  return {
    ...common(error, "CloudThrottled"),
    state: "waiting",
    cause: `The cloud throttles the driver${seconds === undefined ? "" : ` for ${seconds} s`}: ${recorded(message)}`,
    action:
      "Wait; if many snapshots or restores run, start fewer at a time, and restore from several identical snapshots rather than from one",
  };
}

/** Not final: the sidecar waits for the answer, so that no snapshot of the storage is lost. */
function unanswered(error: DriverError): Explanation | undefined {
  if (!/code = (?:DeadlineExceeded|Unavailable|Canceled|Aborted)/.test(error.message)) return undefined;
  return {
    ...common(error, "DriverUnanswered"),
    cause: `The driver has not finished the call: ${recorded(error.message)}`,
    action: "Check that the driver runs and reaches its storage: read the log of its controller Pod",
  };
}

function other(error: DriverError): Explanation {
  return {
    ...common(error, "DriverError"),
    cause: `The driver reports an error: ${recorded(error.message)}`,
    action: "Correct what the error names; the log of the driver's controller Pod may say more",
  };
}

function common({ since, who, now }: DriverError, reason: string) {
  return { state: "stuck", reason, since, retry: retriedBy(who, now) } as const;
}
