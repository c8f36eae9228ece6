import { output, type Input, type Output } from "@pulumi/pulumi";
import { runError } from "../run-error.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { RametError } from "../../src/base/errors.ts";
import type { SnapshotClassRequest } from "../../provider/handlers/snapshot-stack/stack-parts.ts";
import {
  classNameFor,
  classParameters,
  driverNames,
  purposes,
  type Purpose,
} from "../../provider/handlers/snapshot-stack/class-parameters.ts";

/** The VolumeSnapshotClasses of a CSI driver: one for each purpose, with the same options. */
export interface SnapshotClassArgs {
  /** The name of the CSI driver, such as `ebs.csi.aws.com`. */
  driver: string;
  /**
   * The prefix of the class names, followed by the purpose.
   * @default derived from the driver: `ebs`, `pd`, `azure-disk`, …
   */
  name?: string;
  /**
   * `checkpoint-retain` keeps the data when its VolumeSnapshot is deleted, `clone-delete` deletes it. @default both
   */
  purposes?: Purpose[];
  /** The purpose whose class is the driver's default class. A cluster may have one per driver. @default none */
  default?: Purpose;
  /** Options for `ebs.csi.aws.com` and `ebs.csi.eks.amazonaws.com`. */
  ebs?: EbsSnapshotOptions;
  /** Options for `pd.csi.storage.gke.io`. */
  pd?: PdSnapshotOptions;
  /** Options for `disk.csi.azure.com`. */
  azureDisk?: AzureDiskSnapshotOptions;
  /** Options for `diskplugin.csi.alibabacloud.com`. */
  alibabaDisk?: AlibabaDiskSnapshotOptions;
  /** Parameters for any other driver, as its documentation names them. */
  parameters?: Record<string, Input<string>>;
}

export interface EbsSnapshotOptions {
  /** Tags of each snapshot. Values may contain the driver's templates, such as `{{ .VolumeSnapshotNamespace }}`. */
  tags?: Record<string, Input<string>>;
  /**
   * Availability zones with fast snapshot restore. Billed by the hour for each snapshot and zone, so use it for a few
   * snapshots that are cloned often.
   */
  fastRestoreZones?: Input<Input<string>[]>;
  /** The ARN of the Outpost that stores the snapshots. */
  outpostArn?: Input<string>;
  /** Locks snapshots against deletion. */
  lock?: {
    mode: Input<"governance" | "compliance">;
    /** Duration of the lock in days. */
    days?: Input<number>;
    /** End of the lock (ISO 8601), instead of `days`. */
    until?: Input<string>;
    /** Hours during which a lock of mode compliance can still be removed. */
    coolOffHours?: Input<number>;
  };
}

export interface PdSnapshotOptions {
  /** The region or multi-region of the snapshots, such as `us-central1`. */
  storageLocation?: Input<string>;
  /** `images` allow more parallel restores than `snapshots`. @default "snapshots" */
  type?: Input<"snapshots" | "images">;
  /** The image family, with type `images`. */
  imageFamily?: Input<string>;
  labels?: Record<string, Input<string>>;
  /** Resource tags by id: `tagKeys/…` to `tagValues/…`. */
  resourceTags?: Record<string, Input<string>>;
}

export interface AzureDiskSnapshotOptions {
  /** Whether to take incremental snapshots. @default true */
  incremental?: Input<boolean>;
  /** The resource group of the snapshots. @default the resource group of the cluster's nodes */
  resourceGroup?: Input<string>;
  /** Another subscription for the snapshots. Requires `incremental: false`. */
  subscriptionId?: Input<string>;
  location?: Input<string>;
  tags?: Record<string, Input<string>>;
  dataAccessAuthMode?: Input<"None" | "AzureActiveDirectory">;
  /** Minutes, 60 to 300, during which a snapshot of a Premium SSD v2 or Ultra disk can be restored before it is copied. */
  instantAccessMinutes?: Input<number>;
}

export interface AlibabaDiskSnapshotOptions {
  /** Days after which a snapshot is deleted automatically. @default never */
  retentionDays?: Input<number>;
  resourceGroupId?: Input<string>;
  tags?: Record<string, Input<string>>;
}

export interface DeclaredClass extends SnapshotClassRequest {
  purpose: Purpose;
  parameters: Output<Record<string, string>>;
}

/** Returns a class for each purpose. @throws RunError if options of another driver are set */
export function classesOf(args: SnapshotClassArgs): DeclaredClass[] {
  const parameters = parametersOf(args);
  return (args.purposes ?? allPurposes).map((purpose) => ({
    purpose,
    parameters,
    driver: args.driver,
    name: classNameFor(args, purpose),
    isDefault: args.default === purpose,
  }));
}

export function classManifest(
  { name, driver, purpose, parameters, isDefault }: DeclaredClass,
  annotations: Record<string, string>,
): Manifest {
  return {
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotClass",
    metadata: {
      name,
      annotations: { ...annotations, ...(isDefault && { "snapshot.storage.kubernetes.io/is-default-class": "true" }) },
    },
    driver,
    deletionPolicy: purposes[purpose],
    // In a server-side apply, an empty map that replaces a full one becomes null and is rejected.
    parameters: parameters.apply((given) => (Object.keys(given).length === 0 ? undefined : given)),
  };
}

function parametersOf(args: SnapshotClassArgs): Output<Record<string, string>> {
  const option = optionOf.get(args.driver) ?? "parameters";
  const wrong = allOptions.find((key) => key !== option && args[key] !== undefined);
  if (wrong !== undefined) {
    const what = `The snapshot options ${wrong} do not apply to the driver ${args.driver}`;
    throw runError(new RametError("InvalidArgument", what, { hint: `Use the options ${option}` }));
  }
  return output(args[option] ?? {}).apply((options) => {
    try {
      return classParameters(args.driver, options);
    } catch (error) {
      throw runError(error);
    }
  });
}

const allPurposes = Object.keys(purposes) as Purpose[];
const allOptions = ["ebs", "pd", "azureDisk", "alibabaDisk", "parameters"] as const;
const optionOf: ReadonlyMap<string, (typeof allOptions)[number]> = new Map([
  [driverNames.ebs, "ebs"],
  [driverNames.ebsAutoMode, "ebs"],
  [driverNames.pd, "pd"],
  [driverNames.azureDisk, "azureDisk"],
  [driverNames.alibabaDisk, "alibabaDisk"],
]);
