import type { KubeClient } from "../kube/kube-client.ts";
import { checkBeside } from "./beside-checks.ts";
import { checkCluster } from "./cluster-checks.ts";
import type { ClusterFacts } from "./cluster-facts.ts";
import type { Finding } from "./finding.ts";
import { checkNodes } from "./node-checks.ts";
import { type PreflightOptions, readFacts } from "./read-facts.ts";

/** Checks a cluster before and after an installation, within 2 s. Changes nothing. @throws RametError if it is unreachable */
export async function checkTheCluster(client: KubeClient, options: PreflightOptions): Promise<Finding[]> {
  return findingsOf(await readFacts(client, options));
}

/** The findings for what was read, in the order of the checks. Pure. */
export function findingsOf(facts: ClusterFacts): Finding[] {
  // Beside other controllers, Ramet runs no cells, so that their needs do not matter.
  if ("value" in facts.beside && facts.beside.value !== undefined) return checkBeside(facts, facts.beside.value);
  const [kubernetes, ...others] = checkCluster(facts);
  return [...(kubernetes === undefined ? [] : [kubernetes]), ...checkNodes(facts), ...others];
}
