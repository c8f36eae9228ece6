import type { KubeClient } from "../kube/kube-client.ts";
import { checkCluster, clocks, controllersFinding, rights } from "./cluster-checks.ts";
import type { ClusterFacts } from "./cluster-facts.ts";
import { checkDisruptions } from "./disruption-checks.ts";
import { checkNamed, type Finding, listed } from "./finding.ts";
import { checkNodes } from "./node-checks.ts";
import { type PreflightOptions, readFacts } from "./read-facts.ts";
import { rametGroup } from "../api/schema/kind.ts";

/** Checks a cluster before and after an installation, within 2 s. Changes nothing. @throws RametError if it is unreachable */
export async function checkTheCluster(client: KubeClient, options: PreflightOptions): Promise<Finding[]> {
  return findingsOf(await readFacts(client, options));
}

/** The findings for what was read, in the order of the checks. Pure. */
export function findingsOf(facts: ClusterFacts): Finding[] {
  // Beside other controllers, Ramet runs no cells, so that their needs do not matter.
  if ("value" in facts.beside && facts.beside.value !== undefined) return checkBeside(facts, facts.beside.value);
  const [kubernetes, ...others] = checkCluster(facts);
  return [
    ...(kubernetes === undefined ? [] : [kubernetes]),
    ...checkNodes(facts),
    ...others,
    ...checkDisruptions(facts),
  ];
}

/** Checks what Ramet needs beside the controllers of another project, which run the sandboxes. */
function checkBeside(facts: ClusterFacts, project: string): Finding[] {
  return [kubernetes(facts), others(facts, project), ...installation(facts, project), ...clocks(facts), rights(facts)];
}

function kubernetes({ version }: ClusterFacts): Finding {
  if ("value" in version)
    return checkNamed("kubernetes").ok(`Kubernetes ${version.value} runs the controllers; no cells run here`);
  return checkNamed("kubernetes").unread("The version of Kubernetes is", version);
}

function others({ others: found }: ClusterFacts, project: string): Finding {
  const check = checkNamed("other-controllers");
  if ("unknown" in found) return check.unread(`Whether the controllers of ${project} run is`, found);
  // A CRD alone runs nothing.
  const signs = listed(found.value.flatMap(({ name, sign }) => (name === undefined ? [] : `${sign} (${name})`)));
  if (signs !== "") return check.ok(`Another controller runs the sandboxes, as --beside expects: ${signs}`);
  return check.warning(
    `No controller of ${project} was found, and Ramet runs no sandboxes beside it`,
    "Install OpenKruise Agents or the ACS components, or install Ramet without --beside",
  );
}

function installation({ crds, controllers, now }: ClusterFacts, project: string): Finding[] {
  if ("unknown" in crds) return [checkNamed("installation").unread("Whether Ramet is installed is", crds)];
  const isOurs = (name: string): boolean => name.endsWith(`.${rametGroup}`);
  const theirs = crds.value.missing.filter((name) => !isOurs(name));
  const kinds =
    theirs.length === 0
      ? checkNamed("crds").ok(`The kinds of ${project} exist`)
      : checkNamed("crds").error(
          `CRDs of ${project} are missing: ${listed(theirs)}`,
          "Install OpenKruise Agents or the ACS components first",
        );
  if (!crds.value.found.some(isOurs))
    return [kinds, checkNamed("installation").ok("Ramet is not installed beside them yet")];
  const ours = crds.value.missing.filter(isOurs);
  if (ours.length === 0) return [kinds, controllersFinding(controllers, now, false)];
  const missing = `CRDs of Ramet are missing: ${listed(ours)}`;
  const action = `Install the manifests of this version: ramet manifests --beside=${project}`;
  return [kinds, checkNamed("installation").error(missing, action), controllersFinding(controllers, now, false)];
}
