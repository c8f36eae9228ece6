import * as z from "zod";
import { RametError } from "../../../src/base/errors.ts";

/** The purposes of a class, with its deletion policy. */
export const purposes = { "checkpoint-retain": "Retain", "clone-delete": "Delete" } as const;
export type Purpose = keyof typeof purposes;

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
  const { schema, render } = known.get(driver) ?? unknownDriver;
  const result = schema.safeParse(options);
  if (result.success) return render(result.data);
  const why = result.error.issues.map(({ path, message }) => [...path.map(String), message].join(": ")).join("; ");
  const supported = schema instanceof z.ZodObject ? `Supported options: ${Object.keys(schema.shape).join(", ")}` : "";
  throw new RametError("InvalidArgument", `Invalid snapshot options for the driver ${driver}: ${why}`, {
    ...(supported !== "" && { hint: supported }),
  });
}

interface Known {
  short?: string;
  schema: z.ZodType;
  render: (options: unknown) => Record<string, string>;
}

function driver<T extends z.ZodType>(short: string, schema: T, render: (options: z.infer<T>) => Rendered): Known {
  return { short, schema, render: (options) => defined(render(schema.parse(options))) };
}

type Rendered = Record<string, string | number | boolean | undefined>;

function defined(parameters: Rendered): Record<string, string> {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([key, value]) => [key, String(value)]));
}

const Tags = z.record(z.string().min(1), z.string());
const Days = z.int().min(1).max(36_500);

/** https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/snapshot.md */
const Ebs = z.strictObject({
  tags: Tags.optional(),
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
});

function ebsParameters({ tags = {}, fastRestoreZones, outpostArn, lock }: z.infer<typeof Ebs>): Rendered {
  const numbered = Object.entries(tags).map(
    ([key, value], at) => [`tagSpecification_${at + 1}`, `${key}=${value}`] as const,
  );
  return {
    ...Object.fromEntries(numbered),
    outpostArn,
    fastSnapshotRestoreAvailabilityZones: fastRestoreZones?.join(","),
    lockMode: lock?.mode,
    lockDuration: lock?.days,
    lockExpirationDate: lock?.until,
    lockCoolOffPeriod: lock?.coolOffHours,
  };
}

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
  });

function pdParameters({ storageLocation, type, imageFamily, labels, resourceTags }: z.infer<typeof Pd>): Rendered {
  return {
    "storage-locations": storageLocation,
    "snapshot-type": type,
    "image-family": imageFamily,
    labels: pairs(labels),
    "resource-tags": pairs(resourceTags),
  };
}

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
  });

function azureDiskParameters(options: z.infer<typeof AzureDisk>): Rendered {
  const { incremental, resourceGroup, subscriptionId, location, tags, dataAccessAuthMode } = options;
  return {
    incremental,
    resourceGroup,
    location,
    dataAccessAuthMode,
    subscriptionID: subscriptionId,
    tags: pairs(tags),
    instantAccessDurationMinutes: options.instantAccessMinutes,
  };
}

/** The names are those of alibaba-cloud-csi-driver's disk plugin (`pkg/disk`). */
const AlibabaDisk = z.strictObject({
  retentionDays: Days.optional(),
  resourceGroupId: z.string().optional(),
  tags: Tags.optional(),
});

function alibabaDiskParameters({ retentionDays, resourceGroupId, tags = {} }: z.infer<typeof AlibabaDisk>): Rendered {
  const named = Object.entries(tags).map(([key, value]) => [`snapshotTags/${key}`, value] as const);
  return { retentionDays, resourceGroupId, ...Object.fromEntries(named) };
}

function pairs(tags: Record<string, string> | undefined): string | undefined {
  return (
    tags &&
    Object.entries(tags)
      .map(([key, value]) => `${key}=${value}`)
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

const known: ReadonlyMap<string, Known> = new Map([
  [driverNames.ebs, driver("ebs", Ebs, ebsParameters)],
  [driverNames.ebsAutoMode, driver("ebs-auto", Ebs, ebsParameters)],
  [driverNames.pd, driver("pd", Pd, pdParameters)],
  [driverNames.azureDisk, driver("azure-disk", AzureDisk, azureDiskParameters)],
  [driverNames.alibabaDisk, driver("alibaba-disk", AlibabaDisk, alibabaDiskParameters)],
]);

const AnyParameters = z.record(z.string(), z.string());
const unknownDriver: Known = { schema: AnyParameters, render: (options) => AnyParameters.parse(options) };
