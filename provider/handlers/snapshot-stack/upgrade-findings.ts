import type { Finding } from "./finding.ts";
import { crdNames, type ObservedCrd, type ObservedCluster, type ObservedWebhook } from "./observed-cluster.ts";

/**
 * What stands in the way of external-snapshotter v8.6 where an older one was: taken from the changelogs of v7.0 to v8.6. Nothing
 * here is repaired silently, because each repair deletes something or ends somebody else's service.
 */
export function upgradeFindings(
  { controller }: { controller: { namespace: string; name: string } },
  plan: { crds: boolean; groupCrds: boolean; controller: boolean },
  observed: ObservedCluster,
): Finding[] {
  const declared = [...(plan.crds ? crdNames.core : []), ...(plan.groupCrds ? crdNames.group : [])];
  const crds = observed.crds.filter(({ name }) => declared.includes(name));
  return [
    ...(plan.crds ? serverFindings(observed.server) : []),
    ...crds.flatMap(storedFindings),
    ...crds.filter(({ hasConversionWebhook }) => hasConversionWebhook).map(conversionFinding),
    ...(plan.crds || plan.controller ? observed.webhooks.map(webhookFinding) : []),
    ...(plan.crds && observed.breakingRules.length > 0 ? [brokenFinding(observed.breakingRules)] : []),
    ...(plan.controller && observed.crds.some(isBeforeRules) ? [modeFinding] : []),
    ...(plan.controller ? selectorFindings(controller, observed) : []),
  ];
}

const refuse = { code: "Conflict", severity: "error" } as const;

/** Their validation rules are of a language that API servers understand since 1.25. */
function serverFindings(server: string): Finding[] {
  const [, major = "1", minor = "99"] = /^v?(\d+)\.(\d+)/.exec(server) ?? [];
  if (Number(major) > 1 || Number(minor) >= 25) return [];
  const problem = `the API server is ${server}, and the CRDs of external-snapshotter v8 need Kubernetes 1.25`;
  return [{ ...refuse, problem, hint: "Bring the cluster to a newer version first" }];
}

/** An API server refuses a CRD without a version in which objects may still be stored. */
function storedFindings({ name, stored }: ObservedCrd): Finding[] {
  const gone = stored.filter((version) => !isStillThere(name, version));
  if (gone.length === 0) return [];
  const problem = `objects of ${name} may be stored as ${gone.join(", ")}, which v8.6 does not have any more`;
  const hint = `Where there are no such objects, kubectl delete crd ${name}; else write each anew with a version that is still served, and then take ${gone.join(", ")} out of the CRD's status.storedVersions`;
  return [{ ...refuse, problem, hint }];
}

function isStillThere(name: string, version: string): boolean {
  return (crdNames.group.includes(name) ? ["v1", "v1beta1", "v1beta2"] : ["v1", "v1beta1"]).includes(version);
}

/** v8.4 and v8.5 named a webhook that v8.6 has not. */
function conversionFinding({ name }: ObservedCrd): Finding {
  const patch = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}';
  const problem = `the CRD ${name} converts its objects by a webhook that v8.6 has not`;
  return { ...refuse, problem, hint: `Take it out: kubectl patch crd ${name} --type merge -p '${patch}'` };
}

/** A webhook whose server is gone refuses every snapshot. */
function webhookFinding({ name, isUpstreams }: ObservedWebhook): Finding {
  if (!isUpstreams) {
    const problem = `the ValidatingWebhookConfiguration ${name} judges snapshots too: while its server is away, it may refuse all of them`;
    return { code: "Conflict", problem, hint: "Leave it if it is wanted", severity: "warning" };
  }
  const problem = `the ValidatingWebhookConfiguration ${name} judges snapshots, and external-snapshotter has no such webhook since v8.2`;
  return {
    ...refuse,
    problem,
    hint: `Delete it before its server: kubectl delete validatingwebhookconfiguration ${name}`,
  };
}

/** Reading them goes on, and every change is refused, also that which ends a deletion. */
function brokenFinding(objects: readonly string[]): Finding {
  const named = objects.slice(0, 5).join(", ");
  const more = objects.length > 5 ? ` and ${objects.length - 5} more` : "";
  const problem = `the CRDs of v8.6 have rules that what is there breaks, and then could not change any more: ${named}${more}`;
  const hint =
    "Repair or delete each: exactly one source, no empty class name, and in a content the name and namespace of its snapshot";
  return { ...refuse, problem, hint };
}

function isBeforeRules({ name, hasRules }: ObservedCrd): boolean {
  return name.startsWith("volumesnapshotcontents.") && !hasRules;
}

/** `--prevent-volume-mode-conversion` is the default since v7. */
const modeFinding: Finding = {
  code: "Conflict",
  problem: "since external-snapshotter v7 a restore that changes a volume's mode (Filesystem, Block) is refused",
  hint: "Where one is meant to, annotate its VolumeSnapshotContent with snapshot.storage.kubernetes.io/allow-volume-mode-change=true",
  severity: "warning",
};

/** A Deployment's selector cannot be changed; until v7 upstream selected by the label `app`. */
function selectorFindings(at: { namespace: string; name: string }, { controllers }: ObservedCluster): Finding[] {
  const found = controllers.find(({ namespace, name }) => namespace === at.namespace && name === at.name);
  if (found === undefined || found.selector["app.kubernetes.io/name"] === "snapshot-controller") return [];
  const problem = `the Deployment ${at.namespace}/${at.name} selects its Pods by other labels, and a selector cannot be changed`;
  const hint = `Delete it first; snapshots wait meanwhile: kubectl delete deployment --namespace ${at.namespace} ${at.name}`;
  return [{ ...refuse, problem, hint }];
}
