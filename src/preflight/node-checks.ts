import { isLocalNode } from "../api/names/system-names.ts";
import type { ClusterFacts, ClusterNode } from "./cluster-facts.ts";
import { checkNamed, type Finding, listed, isAtLeast } from "./finding.ts";

/** Checks what a node must have for cells. */
export function checkNodes({ nodes }: Pick<ClusterFacts, "nodes">): Finding[] {
  if ("unknown" in nodes) {
    return [checkNamed("nodes").unread("The nodes are", nodes)];
  }
  const schedulable = nodes.value.filter(({ spec }) => spec.unschedulable !== true);
  if (schedulable.length === 0) {
    return [checkNamed("nodes").error("No node accepts Pods", "Add a node, or run: kubectl uncordon NODE")];
  }
  const real = schedulable.filter(({ metadata }) => !isLocalNode(metadata.labels));
  return [
    readiness(schedulable),
    ...(real.length === 0
      ? [checkNamed("container-runtime").ok("The nodes of a local cluster start cells themselves")]
      : onRealNodes(real)),
    userNamespaces(schedulable),
    cpu(schedulable),
  ];
}

function onRealNodes(nodes: readonly ClusterNode[]): Finding[] {
  return [runtimes(nodes), kubelets(nodes), cgroups(nodes)];
}

function readiness(nodes: readonly ClusterNode[]): Finding {
  const unready = nodes.filter(
    ({ status }) => status.conditions.find(({ type }) => type === "Ready")?.status !== "True",
  );
  const [first] = unready;
  if (first === undefined) {
    const all = nodes.length === 1 ? "The only schedulable node is" : `All ${nodes.length} schedulable nodes are`;
    return checkNamed("nodes").ok(`${all} Ready`);
  }
  const why = first.status.conditions.find(({ type }) => type === "Ready")?.message ?? "no reason is given";
  const level = unready.length === nodes.length ? "error" : "warning";
  return checkNamed("nodes")[level](
    `Nodes are not Ready: ${namesOf(unready)}. ${first.metadata.name}: ${why}`,
    `Correct what the node reports: kubectl describe node ${first.metadata.name}`,
  );
}

/** Image volumes need containerd 2.1 or CRI-O 1.31 (their release notes); older ones cannot mount a template's image. */
const minimalRuntimes: Readonly<Record<string, string>> = { containerd: "2.1", "cri-o": "1.31" };

function runtimes(nodes: readonly ClusterNode[]): Finding {
  const check = checkNamed("container-runtime");
  const old = nodes.filter((node) => {
    const { name, version } = runtimeOf(node);
    const minimum = minimalRuntimes[name];
    return minimum !== undefined && !isAtLeast(version, minimum);
  });
  if (old.length > 0) {
    const found = [...new Set(old.map((node) => node.status.nodeInfo.containerRuntimeVersion))].join(", ");
    return check.error(
      `The container runtime cannot mount image volumes on ${namesOf(old)}: ${found}`,
      "Use nodes with containerd 2.1 or later",
    );
  }
  const others = nodes.filter((node) => minimalRuntimes[runtimeOf(node).name] === undefined);
  if (others.length > 0) {
    return check.unknown(
      `Whether the container runtime mounts image volumes is unknown on ${namesOf(others)}: ${others[0]?.status.nodeInfo.containerRuntimeVersion ?? ""}`,
      "Test a Pod with an image volume on such a node",
    );
  }
  return check.ok(
    `All nodes have a runtime that mounts image volumes: ${[...new Set(nodes.map((node) => node.status.nodeInfo.containerRuntimeVersion))].join(", ")}`,
  );
}

function runtimeOf({ status }: ClusterNode): { name: string; version: string } {
  const [name = "", version = ""] = status.nodeInfo.containerRuntimeVersion.split("://");
  return { name, version };
}

function kubelets(nodes: readonly ClusterNode[]): Finding {
  const old = nodes.filter(({ status }) => !isAtLeast(status.nodeInfo.kubeletVersion, "1.33"));
  if (old.length > 0) {
    return checkNamed("kubelet").error(
      `The kubelet has no image volumes on ${namesOf(old)}`,
      "Upgrade these nodes to Kubernetes 1.35 or later",
    );
  }
  const gated = nodes.filter(({ status }) => !isAtLeast(status.nodeInfo.kubeletVersion, "1.35"));
  if (gated.length > 0) {
    return checkNamed("kubelet").warning(
      `The kubelet has image volumes only with the feature gate ImageVolume on ${namesOf(gated)}`,
      "Set the feature gate ImageVolume on these nodes, or upgrade them to Kubernetes 1.35",
    );
  }
  return checkNamed("kubelet").ok("All kubelets have image volumes");
}

/** The Node has no field for it (Kubernetes API v1.36). */
function cgroups(nodes: readonly ClusterNode[]): Finding {
  return checkNamed("cgroups").unknown(
    "The API does not show the version of the nodes' control groups",
    `Run on a node such as ${nodes[0]?.metadata.name ?? ""}: stat -fc %T /sys/fs/cgroup; cgroup2fs is version 2`,
  );
}

/** The same rule by which the controllers decide about hostUsers with the setting auto. */
function userNamespaces(nodes: readonly ClusterNode[]): Finding {
  const check = checkNamed("user-namespaces");
  const without = nodes.filter(({ status }) => {
    const byDefault = status.runtimeHandlers.find(({ name }) => name === "");
    return byDefault?.features?.userNamespaces !== true;
  });
  if (without.length === 0) {
    const message = `All nodes report user namespaces (${namesOf(nodes)}); with the setting auto, cells have hostUsers: false`;
    return { ...check.ok(message), nodes: nodes.map(({ metadata }) => metadata.name) };
  }
  const isLocal = nodes.every(({ metadata }) => isLocalNode(metadata.labels));
  if (isLocal) return check.ok("The node of a local cluster isolates cells without the field hostUsers");
  const what =
    without.length === nodes.length
      ? `No node reports user namespaces (${namesOf(without)})`
      : `${without.length} of ${nodes.length} nodes report no user namespaces: ${namesOf(without)}`;
  const warning = check.warning(
    `${what}; with the setting auto, cells run without hostUsers: false`,
    missingSupport(without),
  );
  return { ...warning, nodes: without.map(({ metadata }) => metadata.name) };
}

/**
 * A Node reports the kernel and the CRI runtime, but not the OCI runtime. Where the two suffice, the OCI runtime is the cause:
 * user namespaces need runc 1.2 or crun 1.9 (Kubernetes documentation, "Use a User Namespace With a Pod").
 */
function missingSupport(nodes: readonly ClusterNode[]): string {
  const isEnough = nodes.every((node) => {
    const { name, version } = runtimeOf(node);
    const least = name === "containerd" ? "2.0" : "1.25";
    return isAtLeast(node.status.nodeInfo.kernelVersion, "6.3") && isAtLeast(version, least);
  });
  if (isEnough) {
    return "Upgrade runc to 1.2 or later (or crun to 1.9) on these nodes, whose kernel and container runtime suffice: runc --version shows it";
  }
  return "Use nodes with Linux 6.3 or later, containerd 2.0 or later and runc 1.2 or later, or leave the setting at never";
}

/** A memory image needs the features of the CPU on which it was captured. The API shows only what labels say. */
function cpu(nodes: readonly ClusterNode[]): Finding {
  const check = checkNamed("cpu");
  const architectures = new Set(nodes.map(({ status }) => status.nodeInfo.architecture));
  if (architectures.size > 1) {
    return check.warning(
      `Nodes have different architectures (${[...architectures].join(", ")}): memory can be restored only on the one where it was captured`,
      "Give sandboxes a nodeSelector for kubernetes.io/arch in their templates",
    );
  }
  if (nodes.length === 1) return check.ok("The only node has the CPU features that its own checkpoints need");
  const features = new Set(nodes.map(featuresOf));
  if (features.size === 1 && !features.has(""))
    return check.ok("All nodes have the same CPU features, by their labels");
  const types = new Set(nodes.map(({ metadata }) => metadata.labels?.["node.kubernetes.io/instance-type"] ?? ""));
  if (types.size === 1 && !types.has("")) return check.ok(`All nodes are of the instance type ${[...types].join("")}`);
  const what = types.has("")
    ? "The API does not show the nodes' CPU features"
    : `Nodes are of different instance types (${[...types].join(", ")})`;
  return check[types.has("") ? "unknown" : "warning"](
    `${what}: memory can be restored only on nodes with at least the features of the one where it was captured`,
    "Use one instance type for sandboxes, or install Node Feature Discovery",
  );
}

/** As Node Feature Discovery labels them. */
function featuresOf({ metadata }: ClusterNode): string {
  return Object.entries(metadata.labels ?? {})
    .filter(([key]) => key.startsWith("feature.node.kubernetes.io/cpu-cpuid."))
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join();
}

function namesOf(nodes: readonly ClusterNode[]): string {
  return listed(nodes.map(({ metadata }) => metadata.name));
}
