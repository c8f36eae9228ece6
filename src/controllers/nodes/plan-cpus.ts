import { type AvoidedNodes, hostNameLabel, instanceTypeLabel } from "../../api/pod/node-affinity.ts";

/** A node, as far as its CPU is known. */
export interface NodeCpu {
  name: string;
  labels: Readonly<Record<string, string>>;
  /** The CPU features that a cell has reported there. */
  features: ReadonlySet<string> | undefined;
}

/** On which nodes memory cannot be restored. */
export interface CpuPlan {
  /** The names of these nodes. */
  lacking: readonly string[];
  /** The features that they lack. Empty if only a refusal is known. */
  missing: readonly string[];
  /** For the affinity of the Pod. Undefined: no node is known to lack a feature. */
  avoided: AvoidedNodes | undefined;
}

export const anyNode: CpuPlan = { lacking: [], missing: [], avoided: undefined };

/**
 * Finds the nodes that lack a CPU feature. A node on which no cell has run is treated like one whose CPU has the same labels of Node
 * Feature Discovery, and otherwise as unknown: a Pod may be scheduled there. Pure.
 *
 * @param needed the features of the memory
 * @param refused the names of nodes whose cell has refused the memory
 */
export function planCpus(needed: readonly string[], nodes: readonly NodeCpu[], refused: readonly string[]): CpuPlan {
  const known = withTwins(nodes);
  const missing = new Set<string>();
  const [lacking, fitting]: [NodeCpu[], NodeCpu[]] = [[], []];
  for (const node of known) {
    const lacks = node.features === undefined ? [] : needed.filter((feature) => node.features?.has(feature) !== true);
    for (const feature of lacks) missing.add(feature);
    if (lacks.length > 0 || refused.includes(node.name)) lacking.push(node);
    else if (node.features !== undefined) fitting.push(node);
  }
  if (lacking.length === 0) return anyNode;
  const isAllKnown = lacking.length + fitting.length === known.length;
  return {
    lacking: lacking.map(({ name }) => name),
    missing: [...missing],
    avoided: { ...avoid(lacking, known), ...(!isAllKnown && { preferred: preferenceFor(fitting, lacking) }) },
  };
}

/** Fills in the features of nodes on which no cell has run. */
function withTwins(nodes: readonly NodeCpu[]): NodeCpu[] {
  const byLabels = new Map<string, ReadonlySet<string>>();
  for (const { labels, features } of nodes) {
    const labelled = cpuLabels(labels);
    if (features !== undefined && labelled !== undefined) byLabels.set(labelled, features);
  }
  return nodes.map((node) => {
    const labelled = node.features === undefined ? cpuLabels(node.labels) : undefined;
    return labelled === undefined ? node : { ...node, features: byLabels.get(labelled) };
  });
}

const discovered = "feature.node.kubernetes.io/";

/** Two nodes with these labels have the same CPU: its model, and all features that are labelled. Undefined: they are not complete. */
function cpuLabels(labels: NodeCpu["labels"]): string | undefined {
  const own = Object.keys(labels).filter((key) => /^cpu-(cpuid|model)\./.test(key.replace(discovered, "")));
  const isComplete = ["cpu-cpuid.", "cpu-model.id"].every((part) => own.some((key) => key.includes(part)));
  if (!isComplete) return undefined;
  return own
    .sort()
    .map((key) => `${key}=${labels[key] ?? ""}`)
    .join();
}

/** A Pod with more names would be long. */
const mostNames = 100;

/** Names the nodes, and of many nodes first the instance types that no other node has. */
function avoid(lacking: readonly NodeCpu[], all: readonly NodeCpu[]): Pick<AvoidedNodes, "names" | "instanceTypes"> {
  const names = (nodes: readonly NodeCpu[]) => nodes.map(({ name }) => name);
  if (lacking.length <= mostNames) return { names: names(lacking), instanceTypes: [] };
  const others = new Set(all.filter((node) => !lacking.includes(node)).map(typeOf));
  const types = new Set(lacking.map(typeOf).filter((type) => type !== undefined && !others.has(type)));
  const rest = lacking.filter((node) => !types.has(typeOf(node)));
  return { names: names(rest.slice(0, mostNames)), instanceTypes: [...types].filter((type) => type !== undefined) };
}

/** The instance types of nodes that fit also describe nodes that do not exist yet. */
function preferenceFor(fitting: readonly NodeCpu[], lacking: readonly NodeCpu[]): AvoidedNodes["preferred"] {
  const others = new Set(lacking.map(typeOf));
  const types = new Set(fitting.map(typeOf).filter((type) => type !== undefined && !others.has(type)));
  if (types.size > 0) return { label: instanceTypeLabel, values: [...types].filter((type) => type !== undefined) };
  const hosts = fitting.slice(0, mostNames).flatMap(({ labels }) => labels[hostNameLabel] ?? []);
  return hosts.length === 0 ? undefined : { label: hostNameLabel, values: hosts };
}

function typeOf({ labels }: NodeCpu): string | undefined {
  return labels[instanceTypeLabel];
}
