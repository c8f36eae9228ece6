import { runtime } from "@pulumi/pulumi";
import type { Cloud } from "../../provider/handlers/snapshot-stack/detect-cloud.ts";
import { podIdentityAgent } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import { controllerNames } from "../../provider/handlers/snapshot-stack/controller-findings.ts";
import { driverNames } from "../../provider/handlers/snapshot-stack/class-parameters.ts";
import type { AddonRequest, StackRequest } from "../../provider/handlers/snapshot-stack/stack-request.ts";
import type { SnapshotStackArgs } from "./args.ts";
import { addonNames, type EksStackArgs } from "./eks.ts";
import { classesOf, type DeclaredClass, type SnapshotClassArgs } from "./snapshot-class.ts";

/** The classes of a stack. @throws RunError if options of another driver are set */
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
    // A dependency of the stack may install a driver, which a preview cannot see yet.
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

/** The namespace of the controller in upstream's manifests. */
export const controllerNamespace = "kube-system";

const defaultClasses: Readonly<Record<Cloud, SnapshotClassArgs[]>> = {
  eks: [{ driver: driverNames.ebs }],
  gke: [{ driver: driverNames.pd }],
  aks: [{ driver: driverNames.azureDisk }],
  acs: [],
  generic: [],
  local: [],
};
