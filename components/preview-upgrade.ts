import { type ComponentResource, type Input, log } from "@pulumi/pulumi";
import { type UpgradeEffects, upgradeEffects } from "../provider/handlers/runtime/upgrade-effects.ts";
import { knownValue } from "./await.ts";
import { inspectCluster } from "./inspect-cluster.ts";

/** Lists in a preview what another cell image does to the snapshots, sets and sandboxes of the cluster. */
export async function previewUpgrade(
  component: ComponentResource,
  { cellImage, kubeconfig }: { cellImage?: Input<string>; kubeconfig?: Input<string> },
): Promise<void> {
  const image = cellImage === undefined ? undefined : await knownValue(cellImage);
  if (image === undefined) return;
  const effects = await inspectCluster(component, {
    find: (env) => upgradeEffects(env, image),
    kubeconfig,
    assumption: "it is unknown what another cell image does",
  });
  if (effects !== undefined) void log.info(upgradeText(effects, image), component);
}

/** One line for each effect. Long lists are cut, because a preview shows them to a reviewer. */
function upgradeText({ before, steps }: UpgradeEffects, image: string): string {
  const lines = steps.slice(0, mostLines).map(({ kind, namespace, name, what }) => {
    return `  ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: ${what}`;
  });
  const left = steps.length - lines.length;
  const more = left > 0 ? [`  and ${left} more; list them with: ramet upgrade --plan --cell-image ${image}`] : [];
  return [`The cell image changes from ${before} to ${image}:`, ...lines, ...more].join("\n");
}

const mostLines = 30;
