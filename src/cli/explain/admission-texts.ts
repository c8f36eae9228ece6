import { leastMillis, overheadBytes, overheadMillis } from "../../api/pod/cell-container.ts";
import { bytesToQuantity } from "../../base/quantity.ts";
import type { Found } from "./explanation.ts";

export interface Refusal {
  namespace: string;
  /** The API server's response to the creation of a Pod. */
  message: string;
  since: string | undefined;
}

/**
 * Recognizes who refused to create a Pod, from the texts of the API server's admission and authorization, which only this file
 * reads. The API server answers 403 for all of them, so only the message tells RBAC, Pod Security, quotas and policies apart.
 */
export function refusedPod({ namespace, message, since }: Refusal): Found | undefined {
  for (const { pattern, reason, cause, action } of refusals) {
    const match = pattern.exec(message);
    if (match === null) continue;
    const words: Record<string, string> = { namespace, ...match.groups };
    const filled = (text: string): string => text.replace(/<(\w+)>/g, (_, word: string) => words[word] ?? "");
    return { reason, since, retry, cause: filled(cause), action: filled(action) };
  }
  return undefined;
}

const retry = "The controllers try again after growing pauses of at most 5 minutes, and when the object changes";

interface Known {
  /** Its groups, and the namespace, are the words in angle brackets of the sentences. */
  pattern: RegExp;
  reason: string;
  cause: string;
  action: string;
}

// Sources of the messages: Kubernetes v1.36, pod-security-admission/admission, plugin/pkg/admission/resourcequota and limitranger,
// apiserver/pkg/admission/plugin/policy/validating and plugin/webhook, apiserver/pkg/endpoints/handlers/responsewriters.
const refusals: readonly Known[] = [
  {
    pattern: /violates PodSecurity "(?<level>[^"]+)": (?<why>.*)$/s,
    reason: "PodSecurity",
    cause: `Pod Security refuses the Pod, because the namespace <namespace> enforces "<level>": <why>`,
    action: `Let an administrator run: kubectl label namespace <namespace> pod-security.kubernetes.io/enforce=privileged --overwrite`,
  },
  {
    pattern:
      /exceeded quota: (?<quota>[^,]+), requested: (?<requested>.*?), used: (?<used>.*?), limited: (?<limited>[^\s.[]+(?:\.\d+[^\s.[]*)*)/s,
    reason: "ResourceQuota",
    cause: `The ResourceQuota <quota> is used up: the Pod requests <requested>, <used> is used of <limited>`,
    action: `Delete sandboxes that are not needed, or raise the quota: kubectl edit resourcequota <quota> -n <namespace>`,
  },
  {
    pattern: /failed quota: (?<quota>[^:]+): must specify (?<fields>[^\s[]+)/,
    reason: "ResourceQuota",
    cause: `The ResourceQuota <quota> requires each container to set <fields>`,
    action: `Set <fields> in the template's resources`,
  },
  {
    pattern:
      /(?<why>(?:maximum|minimum) \S+ usage per (?:Pod|Container) is [^,]+, but (?:limit|request) is [^\s,.[]+|\S+ max limit to request ratio per \w+ is [^,]+)/,
    reason: "LimitRange",
    cause: `A LimitRange of the namespace <namespace> refuses the Pod: <why>. The Pod has what the cell needs on top of the template's resources: ${bytesToQuantity(overheadBytes)} of memory, and ${overheadMillis}m of CPU with a limit of at least ${leastMillis}m`,
    action:
      "Change the template's resources so that the LimitRange allows them with the cell's part, or annotate the template with ramet.dev/cell-overhead=none: the cell then takes its part from the sandbox",
  },
  {
    pattern: /ValidatingAdmissionPolicy '(?<policy>[^']+)' with binding '[^']+' denied request: (?<why>.*)$/s,
    reason: "AdmissionPolicy",
    cause: `The admission policy <policy> refuses the Pod: <why>`,
    action: `Change the template so that it meets the policy <policy>`,
  },
  {
    pattern: /admission webhook "(?<webhook>[^"]+)" denied the request:? ?(?<why>.*)$/s,
    reason: "AdmissionWebhook",
    cause: `The admission webhook <webhook> refuses the Pod: <why>`,
    action: `Change the template so that the webhook <webhook> accepts it`,
  },
  {
    pattern: /failed calling webhook "(?<webhook>[^"]+)": (?<why>.*)$/s,
    reason: "AdmissionWebhook",
    cause: `The admission webhook <webhook> cannot be called: <why>`,
    action: `Repair the service of the webhook <webhook>, or delete its configuration`,
  },
  {
    pattern: /namespace (?<namespace>\S+) because it is being terminated/,
    reason: "NamespaceTerminating",
    cause: `The namespace <namespace> is being deleted`,
    action: "Create the object in another namespace",
  },
  {
    pattern: /serviceaccount "(?<account>[^"]+)" not found/,
    reason: "ServiceAccountMissing",
    cause: `The service account <account> does not exist in the namespace <namespace>`,
    action: `Create it, or remove serviceAccountName from the template: kubectl create serviceaccount <account> -n <namespace>`,
  },
  {
    pattern: /no PriorityClass with name (?<name>\S+) was found/,
    reason: "PriorityClassMissing",
    cause: `The PriorityClass <name> does not exist`,
    action: `Create it, or remove priorityClassName from the template`,
  },
  {
    pattern: /User "(?<user>[^"]+)" cannot create resource "pods"/,
    reason: "Forbidden",
    cause: `The controllers (<user>) are not allowed to create Pods in the namespace <namespace>`,
    action: "Install the manifests of the running version of Ramet again, with their ClusterRoles",
  },
];
