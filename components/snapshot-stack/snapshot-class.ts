import { output, type Input, type Output } from "@pulumi/pulumi";
import { runError } from "../run-error.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { RametError } from "../../src/base/errors.ts";
import type { SnapshotClassRequest } from "../../provider/handlers/snapshot-stack/stack-request.ts";
import {
  classNameFor,
  classParameters,
  driverNames,
  purposes,
  type Purpose,
} from "../../provider/handlers/snapshot-stack/class-parameters.ts";
import { defaultClassAnnotation } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";

/** The VolumeSnapshotClasses for one CSI driver: one for each purpose, with the same options. */
export interface SnapshotClassArgs {
  /** The name of the CSI driver, such as `ebs.csi.aws.com`. */
  driver: string;
  /** What their names begin with; the purpose follows. @default after the driver: `ebs`, `pd`, `azure-disk`, … */
  name?: string;
  /**
   * `checkpoint-retain`: the data stays when its VolumeSnapshot is deleted. `clone-delete`: it goes with it. @default both
   */
  purposes?: Purpose[];
  /** Which of them is the default of the driver. There may be one in a cluster. @default none */
  default?: Purpose;
  /** For `ebs.csi.aws.com` and `ebs.csi.eks.amazonaws.com`. */
  ebs?: EbsSnapshotOptions;
  /** For `pd.csi.storage.gke.io`. */
  pd?: PdSnapshotOptions;
  /** For `disk.csi.azure.com`. */
  azureDisk?: AzureDiskSnapshotOptions;
  /** For `diskplugin.csi.alibabacloud.com`. */
  alibabaDisk?: AlibabaDiskSnapshotOptions;
  /** For any other driver: its parameters, as its documentation names them. */
  parameters?: Record<string, Input<string>>;
}

export interface EbsSnapshotOptions {
  /** Tags of each snapshot. Values may hold what the driver fills in, such as `{{ .VolumeSnapshotNamespace }}`. */
  tags?: Record<string, Input<string>>;
  /**
   * Availability zones in which volumes made from a snapshot are fast at once. Charged by the hour for each snapshot and zone; for few
   * snapshots that are cloned often.
   */
  fastRestoreZones?: Input<Input<string>[]>;
  /** The Outpost on which the snapshots are kept. */
  outpostArn?: Input<string>;
  /** Keeps snapshots from being deleted. */
  lock?: {
    mode: Input<"governance" | "compliance">;
    /** For how many days. */
    days?: Input<number>;
    /** Until then, instead: ISO 8601. */
    until?: Input<string>;
    /** For how many hours a lock of mode compliance can still be undone. */
    coolOffHours?: Input<number>;
  };
}

export interface PdSnapshotOptions {
  /** A region or multi-region, such as `us-central1`. */
  storageLocation?: Input<string>;
  /** `images` are restored more often at once than a snapshot may be. @default "snapshots" */
  type?: Input<"snapshots" | "images">;
  /** With `images`. */
  imageFamily?: Input<string>;
  labels?: Record<string, Input<string>>;
  /** By their ids: `tagKeys/…` to `tagValues/…`. */
  resourceTags?: Record<string, Input<string>>;
}

export interface AzureDiskSnapshotOptions {
  /** @default true */
  incremental?: Input<boolean>;
  /** @default that of the cluster's nodes */
  resourceGroup?: Input<string>;
  /** Another subscription; needs `incremental: false`. */
  subscriptionId?: Input<string>;
  location?: Input<string>;
  tags?: Record<string, Input<string>>;
  dataAccessAuthMode?: Input<"None" | "AzureActiveDirectory">;
  /** For how many minutes, 60 to 300, a snapshot of a Premium SSD v2 or Ultra disk can be restored before it is copied. */
  instantAccessMinutes?: Input<number>;
}

export interface AlibabaDiskSnapshotOptions {
  /** After how many days a snapshot goes by itself. @default never */
  retentionDays?: Input<number>;
  resourceGroupId?: Input<string>;
  tags?: Record<string, Input<string>>;
}

export interface DeclaredClass extends SnapshotClassRequest {
  purpose: Purpose;
  parameters: Output<Record<string, string>>;
}

/** One class for each purpose. @throws RunError for options of another driver */
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
    metadata: { name, annotations: { ...annotations, ...(isDefault && { [defaultClassAnnotation]: "true" }) } },
    driver,
    deletionPolicy: purposes[purpose],
    // An empty map in place of a full one becomes null in a server-side apply, and is refused.
    parameters: parameters.apply((given) => (Object.keys(given).length === 0 ? undefined : given)),
  };
}

function parametersOf(args: SnapshotClassArgs): Output<Record<string, string>> {
  const option = optionOf.get(args.driver) ?? "parameters";
  const wrong = allOptions.find((key) => key !== option && args[key] !== undefined);
  if (wrong !== undefined) {
    const what = `The snapshot options ${wrong} are not for the driver ${args.driver}`;
    throw runError(new RametError("InvalidArgument", what, { hint: `Its options are given as ${option}` }));
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
