import { waitingFor } from "../await.ts";
import type { Manifest } from "./manifest.ts";
import type { StackPlan } from "../../provider/handlers/snapshot-stack/plan-stack.ts";
import type { SnapshotStackArgs } from "./args.ts";
import { snapshotControllerManifests } from "./controller-manifests.ts";
import { upstreamCrds } from "./upstream-crds.ts";
import { controllerNamespace } from "./stack-request.ts";

/** The CRDs that a plan declares. */
export async function crdManifests(plan: StackPlan, annotations: Record<string, string>): Promise<Manifest[]> {
  if (!plan.crds && !plan.groupCrds) return [];
  const { crds } = await upstreamCrds();
  const isOfGroups = ({ metadata }: Manifest): boolean => metadata.name.endsWith(".groupsnapshot.storage.k8s.io");
  return crds
    .filter((crd) => (isOfGroups(crd) ? plan.groupCrds : plan.crds))
    .map((crd) => ({
      ...crd,
      metadata: {
        ...crd.metadata,
        annotations: {
          ...crd.metadata.annotations,
          ...annotations,
          ...waitingFor("Established"),
        },
      },
    }));
}

/** The controller, where a plan declares one. */
export async function controllerManifests(
  plan: StackPlan,
  { controller = {}, groupSnapshots = false }: SnapshotStackArgs,
  annotations: Record<string, string>,
): Promise<Manifest[]> {
  if (!plan.controller) return [];
  const { version } = await upstreamCrds();
  const { namespace = controllerNamespace, replicas = 2, workers = 50, requestsPerSecond = 100 } = controller;
  const image = controller.image ?? `registry.k8s.io/sig-storage/snapshot-controller:${version}`;
  return snapshotControllerManifests({
    ...{ namespace, annotations, image, replicas, workers, requestsPerSecond, groupSnapshots },
  });
}
