import * as z from "zod";
import { controllerName, systemNamespace } from "../../../src/api/names/system-names.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { ObjectMeta } from "../../../src/kube/object.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { planUpgrade, type UpgradeStep } from "../../../src/preflight/plan-upgrade.ts";
import { readUpgrade } from "../../../src/preflight/read-upgrade.ts";
import { type ClusterEnvironment, readCluster } from "../open-cluster.ts";

export interface UpgradeEffects {
  /** The cell image of the running controllers. */
  before: string;
  /** As `ramet upgrade --plan` lists them. */
  steps: UpgradeStep[];
}

/**
 * The effects of a program's cell image on the snapshots, sets and sandboxes of the cluster. Undefined: nothing, or it cannot be
 * known, because the program may not read all namespaces.
 */
export async function upgradeEffects(env: ClusterEnvironment, cellImage: string): Promise<UpgradeEffects | undefined> {
  try {
    return await readCluster(env, async (client, signal) => {
      const before = await runningCellImage(client, signal);
      if (before === undefined || before === cellImage) return undefined;
      const steps = planUpgrade({ ...(await readUpgrade(client, signal)), cellImage, cellEngine: undefined });
      return steps.length === 0 ? undefined : { before, steps };
    });
  } catch (error) {
    // A preview must not fail for what it only reports.
    if (RametError.from(error).code === "Internal") throw error;
    return undefined;
  }
}

async function runningCellImage(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  const resource = client.resource(coreResources.deployments, (value) => Deployment.parse(value));
  const found = await resource.find({ namespace: systemNamespace, name: controllerName }, { signal });
  const args = found?.spec.template.spec.containers[0]?.args ?? [];
  const at = args.indexOf("--cell-image");
  return at < 0 ? undefined : args[at + 1];
}

const Deployment = z.looseObject({
  metadata: ObjectMeta,
  spec: z.object({
    template: z.object({
      spec: z.object({ containers: z.array(z.object({ args: z.array(z.string()).optional() })) }),
    }),
  }),
});
