import { runtime } from "@pulumi/pulumi";
import type { Cloud } from "../../provider/handlers/snapshot-stack/detect-cloud.ts";
import { podIdentityAgent } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import { controllerNames } from "../../provider/handlers/snapshot-stack/controller-findings.ts";
import { driverNames } from "../../provider/handlers/snapshot-stack/class-parameters.ts";
import type { AddonRequest, StackRequest } from "../../provider/handlers/snapshot-stack/stack-request.ts";
import type { SnapshotStackArgs } from "./args.ts";
import { addonNames, type EksStackArgs } from "./eks.ts";
import { classesOf, type DeclaredClass, type SnapshotClassArgs } from "./snapshot-class.ts";

/** @throws RunError for options of another driver */
export function classesFor({ cloud, classes, eks }: SnapshotStackArgs): DeclaredClass[] {
  const own = eks?.autoMode === true ? [{ driver: driverNames.ebsAutoMode }] : defaultClasses[cloud];
  return (classes ?? own).flatMap(classesOf);
}

export function stackRequestFor(
  owners: StackRequest["owners"],
  args: SnapshotStackArgs,
  classes: readonly DeclaredClass[],
): StackRequest {
  const { cloud, mode = "auto", groupSnapshots = false, controller } = args;
  return {
    cloud,
    mode,
    groupSnapshots,
    owners,
    controller: { namespace: controller?.namespace ?? controllerNamespace, name: controllerNames.controller },
    classes: classes.map(({ name: className, driver, isDefault }) => ({ name: className, driver, isDefault })),
    addons: cloud === "eks" ? eksAddons(args.eks) : [],
    // What the stack depends on may bring a driver, and in a preview it has not come yet.
    driversMayCome: cloud === "generic" && runtime.isDryRun(),
  };
}

function eksAddons({ autoMode = false, identity }: Partial<EksStackArgs> = {}): AddonRequest[] {
  if (autoMode) return [{ addon: addonNames.controller }];
  return [
    { addon: addonNames.controller },
    ...(identity === "irsa" ? [] : [{ addon: addonNames.podIdentity, daemonSet: podIdentityAgent }]),
    { addon: addonNames.driver, driver: driverNames.ebs },
  ];
}

/** Where upstream has its controller. */
export const controllerNamespace = "kube-system";

const defaultClasses: Readonly<Record<Cloud, SnapshotClassArgs[]>> = {
  eks: [{ driver: driverNames.ebs }],
  gke: [{ driver: driverNames.pd }],
  aks: [{ driver: driverNames.azureDisk }],
  acs: [],
  generic: [],
  local: [],
};
