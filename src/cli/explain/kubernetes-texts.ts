import { leastMillis, overheadBytes, overheadMillis } from "../../api/pod/cell-container.ts";
import { bytesToQuantity } from "../../base/quantity.ts";
import { type Found, withoutStop } from "./explanation.ts";

/**
 * The texts of the kubelet and the scheduler (Kubernetes v1.36), of container runtimes and of registries, as statuses and Events
 * of Pods contain them. Nothing else reads these texts. The remedies are imperatives without a full stop.
 */
interface Known {
  words: RegExp;
  remedy: string;
}

function remedyIn(text: string, known: readonly Known[], otherwise: string): string {
  return known.find(({ words }) => words.test(text))?.remedy ?? otherwise;
}

// pkg/scheduler/framework/plugins. Those that no new node heals come first.
const schedulerTexts: readonly Known[] = [
  {
    words: /unbound immediate PersistentVolumeClaims|persistentvolumeclaim "[^"]+" not found/,
    remedy: "Provide a PersistentVolume or a StorageClass for the claim: kubectl describe pvc shows what it asks for",
  },
  { words: /volume node affinity conflict/, remedy: "Add a node in the zone of the sandbox's volume" },
  {
    words: /node affinity\/selector|node selector/,
    remedy: "Label a node as the template's nodeSelector and affinity require, or change them",
  },
  {
    words: /Insufficient|Too many pods/,
    remedy: "Lower the requests in the template, delete sandboxes, or add a node",
  },
  { words: /unreachable|not-ready|not ready/, remedy: "Repair the nodes that are not Ready: kubectl get nodes" },
  { words: /untolerated taint/, remedy: "Add a toleration to the template, or a node without the taint" },
  { words: /were unschedulable/, remedy: "Allow Pods on a node again: kubectl uncordon NODE" },
  { words: /no nodes available/, remedy: "Add a node to the cluster" },
];

export function remedyOfScheduler(text: string): string {
  return remedyIn(text, schedulerTexts, "Change the template or add a node, so that one node meets all of this");
}

// As containerd and the OCI distribution specification pass the registries' words on.
const accountTexts: readonly Known[] = [
  {
    words: /toomanyrequests|429|rate limit/i,
    remedy: "Add imagePullSecrets to the template, or use a mirror: the registry limits anonymous pulls",
  },
  {
    words: /unauthorized|\b401\b|\b403\b|forbidden|authorization failed|authentication required|denied/i,
    remedy: "Check the image's name, and add imagePullSecrets with access to its repository to the template",
  },
];

const nodeTexts: readonly Known[] = [
  {
    words: /no match for platform|exec format|does not match the specified platform/i,
    remedy: "Use an image for the nodes' architecture: this one has none",
  },
  { words: /x509|certificate/i, remedy: "Let the nodes trust the registry's certificate authority" },
  { words: /no space left on device/i, remedy: "Free space in the node's image file system" },
  {
    words:
      /no such host|i\/o timeout|connection refused|connection reset|network is unreachable|deadline exceeded|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT/i,
    remedy: "Give the nodes access to the registry: check its name, DNS and the network",
  },
];

export function remedyOfPull(text: string): string {
  // The local node says how an image that it knows is built. Every other one has a registry.
  const isBuilt = text.includes("Build it with: ramet local image");
  const otherwise = isBuilt ? "Run the command that the cause names" : "Correct the image in the template";
  return remedyIn(text, [...accountTexts, ...(isBuilt ? [] : nodeTexts)], otherwise);
}

/** For the image of the cell, which no template names. */
export function remedyOfCellPull(text: string): string {
  const otherwise = "Let an administrator push the image, or install Ramet with a --cell-image that the nodes can pull";
  return remedyIn(text, nodeTexts, otherwise);
}

/** The image that a pull names. One name can be the start of another. */
export function imageIn(text: string, images: readonly string[]): string | undefined {
  return images.toSorted((a, b) => b.length - a.length).find((image) => text.includes(image));
}

const setupTexts: readonly Known[] = [
  {
    words: /user namespace|idmap|hostUsers/i,
    remedy:
      "Install Ramet with --cell-user-namespaces never, or use nodes whose kernel and runtime support user namespaces",
  },
  {
    words: /RuntimeHandler|runtime handler/,
    remedy: "Remove runtimeClassName from the template, or install that runtime on the node",
  },
  {
    words: /image volume|ImageVolume|pull/i,
    remedy: "Use nodes whose container runtime supports image volumes: containerd 2.1 or later",
  },
  { words: /NetworkNotReady|cni|network/i, remedy: "Repair the node's network plug-in (CNI)" },
];

/** For volumes and networks that cannot be set up. */
export function remedyOfSetup(text: string): string {
  const otherwise = "Correct the volume in the template, or the storage behind it";
  return missingObject(text) ?? remedyIn(text, setupTexts, otherwise);
}

/** For a container that cannot be created. */
export function remedyOfContainer(text: string, otherwise: string): string {
  return missingObject(text) ?? remedyIn(text, containerTexts, otherwise);
}

const containerTexts: readonly Known[] = [
  {
    // containerd 2.2.7 and 2.3.4, after several CVEs (containerd#13913); 2.4 removes it. It should stay disabled on shared nodes.
    words: /checkpoint restore via CreateContainer is disabled by configuration/,
    remedy:
      "Create the sandbox from a Checkpoint of Ramet, which needs nothing of containerd, or run such Pods in a node pool whose runtime restores checkpoint images (CRI-O)",
  },
];

/** `secret "x" not found`, `couldn't find key k in Secret ns/x`. */
function missingObject(text: string): string | undefined {
  const [, kind = "", name = ""] = /(secret|configmap|persistentvolumeclaim)s? "([^"]+)" not found/i.exec(text) ?? [];
  if (name !== "") return `Create the ${kindNames[kind.toLowerCase()] ?? kind} ${name} in the namespace of the sandbox`;
  const [, key = "", holder = "", at = ""] = /find key (\S+) in (Secret|ConfigMap) (\S+)/.exec(text) ?? [];
  return key === "" ? undefined : `Add the key ${key} to the ${holder} ${at}`;
}

const kindNames: Readonly<Record<string, string>> = {
  secret: "Secret",
  configmap: "ConfigMap",
  persistentvolumeclaim: "PersistentVolumeClaim",
};

const probeKinds = ["startup", "readiness", "liveness"] as const;

export interface ProbeFailure {
  kind: (typeof probeKinds)[number];
  why: string;
}

/** `Startup probe failed: HTTP probe failed with statuscode: 500`. */
export function probeFailureIn(text: string): ProbeFailure | undefined {
  const [, word, why = ""] = /^(Startup|Readiness|Liveness) probe (?:failed|errored)[^:]*: (.*)$/s.exec(text) ?? [];
  const kind = probeKinds.find((one) => one === word?.toLowerCase());
  return kind && { kind, why: withoutStop(why) };
}

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

interface KnownRefusal {
  /** Its groups, and the namespace, are the words in angle brackets of the sentences. */
  pattern: RegExp;
  reason: string;
  cause: string;
  action: string;
}

// Sources of the messages: Kubernetes v1.36, pod-security-admission/admission, plugin/pkg/admission/resourcequota and limitranger,
// apiserver/pkg/admission/plugin/policy/validating and plugin/webhook, apiserver/pkg/endpoints/handlers/responsewriters.
const refusals: readonly KnownRefusal[] = [
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
