import { withoutStop } from "./explanation.ts";

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
