import type { Finding } from "./finding.ts";
import { crdNames, type CrdSeen, type StackSeen, type WebhookSeen } from "./stack-seen.ts";

/**
 * What stands in the way of external-snapshotter v8.6 where an older one was: taken from the changelogs of v7.0 to v8.6. Nothing
 * here is repaired silently, because each repair deletes something or ends somebody else's service.
 */
export function upgradeFindings(
  { controller }: { controller: { namespace: string; name: string } },
  plan: { crds: boolean; groupCrds: boolean; controller: boolean },
  seen: StackSeen,
): Finding[] {
  const declared = [...(plan.crds ? crdNames.core : []), ...(plan.groupCrds ? crdNames.group : [])];
  const crds = seen.crds.filter(({ name }) => declared.includes(name));
  return [
    ...(plan.crds ? serverFindings(seen.server) : []),
    ...crds.flatMap(storedFindings),
    ...crds.filter(({ hasConversionWebhook }) => hasConversionWebhook).map(conversionFinding),
    ...(plan.crds || plan.controller ? seen.webhooks.map(webhookFinding) : []),
    ...(plan.crds && seen.breakingRules.length > 0 ? [brokenFinding(seen.breakingRules)] : []),
    ...(plan.controller && seen.crds.some(isBeforeRules) ? [modeFinding] : []),
    ...(plan.controller ? selectorFindings(controller, seen) : []),
  ];
}

const refuse = { code: "Conflict", weight: "refuse" } as const;

/** Their validation rules are of a language that API servers understand since 1.25. */
function serverFindings(server: string): Finding[] {
  const [, major = "1", minor = "99"] = /^v?(\d+)\.(\d+)/.exec(server) ?? [];
  if (Number(major) > 1 || Number(minor) >= 25) return [];
  const what = `the API server is ${server}, and the CRDs of external-snapshotter v8 need Kubernetes 1.25`;
  return [{ ...refuse, what, how: "Bring the cluster to a newer version first" }];
}

/** An API server refuses a CRD without a version in which objects may still be stored. */
function storedFindings({ name, stored }: CrdSeen): Finding[] {
  const gone = stored.filter((version) => !isStillThere(name, version));
  if (gone.length === 0) return [];
  const what = `objects of ${name} may be stored as ${gone.join(", ")}, which v8.6 does not have any more`;
  const how = `Where there are no such objects, kubectl delete crd ${name}; else write each anew with a version that is still served, and then take ${gone.join(", ")} out of the CRD's status.storedVersions`;
  return [{ ...refuse, what, how }];
}

function isStillThere(name: string, version: string): boolean {
  return (crdNames.group.includes(name) ? ["v1", "v1beta1", "v1beta2"] : ["v1", "v1beta1"]).includes(version);
}

/** v8.4 and v8.5 named a webhook that v8.6 has not. */
function conversionFinding({ name }: CrdSeen): Finding {
  const patch = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}';
  const what = `the CRD ${name} converts its objects by a webhook that v8.6 has not`;
  return { ...refuse, what, how: `Take it out: kubectl patch crd ${name} --type merge -p '${patch}'` };
}

/** A webhook whose server is gone refuses every snapshot. */
function webhookFinding({ name, isUpstreams }: WebhookSeen): Finding {
  if (!isUpstreams) {
    const what = `the ValidatingWebhookConfiguration ${name} judges snapshots too: while its server is away, it may refuse all of them`;
    return { code: "Conflict", what, how: "Leave it if it is wanted", weight: "tell" };
  }
  const what = `the ValidatingWebhookConfiguration ${name} judges snapshots, and external-snapshotter has no such webhook since v8.2`;
  return { ...refuse, what, how: `Delete it before its server: kubectl delete validatingwebhookconfiguration ${name}` };
}

/** Reading them goes on, and every change is refused, also that which ends a deletion. */
function brokenFinding(objects: readonly string[]): Finding {
  const named = objects.slice(0, 5).join(", ");
  const more = objects.length > 5 ? ` and ${objects.length - 5} more` : "";
  const what = `the CRDs of v8.6 have rules that what is there breaks, and then could not change any more: ${named}${more}`;
  const how =
    "Repair or delete each: exactly one source, no empty class name, and in a content the name and namespace of its snapshot";
  return { ...refuse, what, how };
}

function isBeforeRules({ name, hasRules }: CrdSeen): boolean {
  return name.startsWith("volumesnapshotcontents.") && !hasRules;
}

/** `--prevent-volume-mode-conversion` is the default since v7. */
const modeFinding: Finding = {
  code: "Conflict",
  what: "since external-snapshotter v7 a restore that changes a volume's mode (Filesystem, Block) is refused",
  how: "Where one is meant to, annotate its VolumeSnapshotContent with snapshot.storage.kubernetes.io/allow-volume-mode-change=true",
  weight: "tell",
};

/** A Deployment's selector cannot be changed; until v7 upstream selected by the label `app`. */
function selectorFindings(at: { namespace: string; name: string }, { controllers }: StackSeen): Finding[] {
  const found = controllers.find(({ namespace, name }) => namespace === at.namespace && name === at.name);
  if (found === undefined || found.selector["app.kubernetes.io/name"] === "snapshot-controller") return [];
  const what = `the Deployment ${at.namespace}/${at.name} selects its Pods by other labels, and a selector cannot be changed`;
  const how = `Delete it first; snapshots wait meanwhile: kubectl delete deployment --namespace ${at.namespace} ${at.name}`;
  return [{ ...refuse, what, how }];
}
