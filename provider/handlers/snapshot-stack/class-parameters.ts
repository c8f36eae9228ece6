import * as z from "zod";
import { RametError } from "../../../src/base/errors.ts";

export type Purpose = "checkpoint-retain" | "clone-delete";
/** The purposes of a class, with its deletion policy. */
export const purposes = { "checkpoint-retain": "Retain", "clone-delete": "Delete" } as const satisfies Record<
  Purpose,
  string
>;

/** The name of a class, such as `ebs-checkpoint-retain`. */
export function classNameFor({ driver, name }: { driver: string; name?: string }, purpose: Purpose): string {
  return `${name ?? known.get(driver)?.short ?? driver.replaceAll(/[^a-z0-9]+/g, "-")}-${purpose}`;
}

/**
 * Converts options to the parameters of the driver.
 * @param options as in the interfaces `…SnapshotOptions`; for an unknown driver, the parameters themselves
 * @throws RametError `InvalidArgument` naming the option
 */
export function classParameters(driver: string, options: unknown): Record<string, string> {
  const { schema } = known.get(driver) ?? { schema: AnyParameters };
  const result = schema.safeParse(options);
  if (result.success) {
    const given = Object.entries(result.data).filter(([, value]) => value !== undefined);
    return Object.fromEntries(given.map(([key, value]) => [key, String(value)]));
  }
  const why = result.error.issues.map(({ path, message }) => [...path.map(String), message].join(": ")).join("; ");
  const shape = schema instanceof z.ZodPipe && schema.in instanceof z.ZodObject ? schema.in.shape : undefined;
  throw new RametError("InvalidArgument", `Invalid snapshot options for the driver ${driver}: ${why}`, {
    ...(shape && { hint: `Supported options: ${Object.keys(shape).join(", ")}` }),
  });
}

const Tags = z.record(z.string().min(1), z.string());
const Days = z.int().min(1).max(36_500);
const AnyParameters = z.record(z.string(), z.string());

/** https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/snapshot.md */
const Ebs = z
  .strictObject({
    tags: Tags.default({}),
    fastRestoreZones: z.array(z.string()).min(1).optional(),
    outpostArn: z.string().optional(),
    lock: z
      .strictObject({
        mode: z.enum(["governance", "compliance"]),
        days: Days.optional(),
        until: z.iso.datetime().optional(),
        coolOffHours: z.int().min(1).max(72).optional(),
      })
      .refine(({ days, until }) => (days === undefined) !== (until === undefined), "give either days or until")
      .refine(({ mode, coolOffHours }) => mode === "compliance" || coolOffHours === undefined, {
        message: "a lock of mode governance has no coolOffHours",
      })
      .optional(),
  })
  .transform(({ tags, fastRestoreZones, outpostArn, lock }) => ({
    ...Object.fromEntries(
      Object.entries(tags).map(([key, value], at) => [`tagSpecification_${at + 1}`, `${key}=${value}`]),
    ),
    outpostArn,
    fastSnapshotRestoreAvailabilityZones: fastRestoreZones?.join(","),
    lockMode: lock?.mode,
    lockDuration: lock?.days,
    lockExpirationDate: lock?.until,
    lockCoolOffPeriod: lock?.coolOffHours,
  }));

/** https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver: unknown keys make each snapshot fail. */
const Pd = z
  .strictObject({
    storageLocation: z.string().optional(),
    type: z.enum(["snapshots", "images"]).optional(),
    imageFamily: z.string().optional(),
    labels: Tags.optional(),
    resourceTags: Tags.optional(),
  })
  .refine(({ type, imageFamily }) => imageFamily === undefined || type === "images", {
    message: "only an image has an imageFamily: set type to images",
  })
  .transform(({ storageLocation, type, imageFamily, labels, resourceTags }) => ({
    "storage-locations": storageLocation,
    "snapshot-type": type,
    "image-family": imageFamily,
    labels: pairs(labels),
    "resource-tags": pairs(resourceTags),
  }));

/**
 * https://github.com/kubernetes-sigs/azuredisk-csi-driver/blob/master/docs/driver-parameters.md: unknown keys make each
 * snapshot fail.
 */
const AzureDisk = z
  .strictObject({
    incremental: z.boolean().optional(),
    resourceGroup: z.string().optional(),
    subscriptionId: z.string().optional(),
    location: z.string().optional(),
    tags: Tags.optional(),
    dataAccessAuthMode: z.enum(["None", "AzureActiveDirectory"]).optional(),
    instantAccessMinutes: z.int().min(60).max(300).optional(),
  })
  .refine(({ incremental, subscriptionId }) => subscriptionId === undefined || incremental === false, {
    message: "an incremental snapshot stays in its disk's subscription: set incremental to false",
  })
  .transform(({ subscriptionId, tags, instantAccessMinutes, ...others }) => ({
    ...others,
    subscriptionID: subscriptionId,
    tags: pairs(tags),
    instantAccessDurationMinutes: instantAccessMinutes,
  }));

/** The names are those of alibaba-cloud-csi-driver's disk plugin (`pkg/disk`). */
const AlibabaDisk = z
  .strictObject({
    retentionDays: Days.optional(),
    resourceGroupId: z.string().optional(),
    tags: Tags.default({}),
  })
  .transform(({ tags, ...others }) => ({
    ...others,
    ...Object.fromEntries(Object.entries(tags).map(([key, value]) => [`snapshotTags/${key}`, value])),
  }));

function pairs(tags: Record<string, string> | undefined): string | undefined {
  return (
    tags &&
    Object.entries(tags)
      .map((pair) => pair.join("="))
      .join(",")
  );
}

export const driverNames = {
  ebs: "ebs.csi.aws.com",
  ebsAutoMode: "ebs.csi.eks.amazonaws.com",
  pd: "pd.csi.storage.gke.io",
  azureDisk: "disk.csi.azure.com",
  alibabaDisk: "diskplugin.csi.alibabacloud.com",
} as const;

const known: ReadonlyMap<string, { short: string; schema: z.ZodType<object> }> = new Map([
  [driverNames.ebs, { short: "ebs", schema: Ebs }],
  [driverNames.ebsAutoMode, { short: "ebs-auto", schema: Ebs }],
  [driverNames.pd, { short: "pd", schema: Pd }],
  [driverNames.azureDisk, { short: "azure-disk", schema: AzureDisk }],
  [driverNames.alibabaDisk, { short: "alibaba-disk", schema: AlibabaDisk }],
]);
