import * as z from "zod";
import { quantityToBytes, quantityToMillicores } from "../../base/quantity.ts";
import { instanceTypeLabel } from "../pod/node-affinity.ts";
import type { Pod } from "../schema/pod.ts";
import { acceptsPods, type MarkedNode, Toleration } from "./node.ts";

/** A node to which a sandbox may move, as far as the cluster says. */
export interface TargetNode extends MarkedNode {
  metadata: MarkedNode["metadata"] & { name: string; labels?: Record<string, string> | undefined };
  isReady: boolean;
  /** What Pods leave of it; a resource that is not here does not exist on the node. */
  free: Amounts;
}

/** By the name of the resource: millicores of `cpu`, else units. */
export type Amounts = Readonly<Record<string, number>>;

/** Where a Pod can run. */
export interface Placement {
  nodeName: string;
  /** The node whose CPU its memory needs. @default `nodeName` */
  cpuOf?: string;
  /** The labels of its present node. */
  nodeLabels: Readonly<Record<string, string>>;
  tolerations: readonly Toleration[];
  nodeSelector: Readonly<Record<string, string>>;
  /** Each list of alternatives must have a term that selects the node: those of the Pod, and those of each of its volumes. */
  terms: readonly (readonly NodeTerm[])[];
  requests: Amounts;
}

/** Why a node does not take a sandbox. */
export const misfits = {
  unschedulable: "do not accept its Pod",
  selector: "do not have the labels that it needs",
  volumes: "cannot have its volumes",
  architecture: "have another architecture",
  cpu: "are not known to have its CPU features",
  devices: "do not have its devices",
  resources: "have too little CPU, memory or devices left",
} as const;
export type Misfit = keyof typeof misfits;

/**
 * Why the sandbox cannot move to the node; undefined: as far as is known, it can. Only the scheduler knows of other Pods, of affinity
 * between Pods and of topology spread.
 *
 * @param hasCpu whether the node is known to have the CPU features of the present one; undefined: it is not known
 */
export function misfit(place: Placement, node: TargetNode, hasCpu: boolean | undefined): Misfit | undefined {
  const { name, labels = {} } = node.metadata;
  if (name === place.nodeName || !node.isReady || !acceptsPods(node, place.tolerations)) return "unschedulable";
  const unselected = unselectedBy(place, name, labels);
  if (unselected !== undefined) return unselected;
  if (labels[architectureLabel] !== place.nodeLabels[architectureLabel]) return "architecture";
  if (!(hasCpu ?? isOfFamily(labels, place.nodeLabels))) return "cpu";
  const isEnough = Object.entries(place.requests).every(([key, amount]) => amount <= (node.free[key] ?? 0));
  return isEnough ? undefined : "resources";
}

/** `isNew`: it may not have told of its volumes and devices yet. */
export type NextNode = TargetNode & { lacksCpu: boolean; isNew: boolean };

/**
 * Why the node cannot take the Pod however empty it gets. Undefined: it may, or only the labels of another node are asked for, which an
 * autoscaler may add.
 */
export function lastingMisfit(
  { tolerations, nodeSelector, terms: [, ...ofVolumes], requests }: Placement,
  { lacksCpu, isNew, ...node }: NextNode,
): Misfit | undefined {
  const { name, labels = {} } = node.metadata;
  if (!node.isReady || !acceptsPods(node, tolerations)) return "unschedulable";
  const architecture = nodeSelector[architectureLabel];
  if (architecture !== undefined && labels[architectureLabel] !== architecture) return "architecture";
  if (lacksCpu) return "cpu";
  if (isNew) return undefined;
  if (!ofVolumes.every((terms) => terms.some((term) => isSelected(term, name, labels)))) return "volumes";
  const lacksDevice = ([key, amount]: [string, number]) => key.includes("/") && amount > (node.free[key] ?? 0);
  return Object.entries(requests).some(lacksDevice) ? "devices" : undefined;
}

function unselectedBy(
  { nodeSelector, terms: [own = [], ...ofVolumes] }: Placement,
  name: string,
  labels: Readonly<Record<string, string>>,
): Misfit | undefined {
  const selects = (alternatives: readonly NodeTerm[]) => alternatives.some((term) => isSelected(term, name, labels));
  const hasLabels = Object.entries(nodeSelector).every(([key, value]) => labels[key] === value);
  if (!hasLabels || (own.length > 0 && !selects(own))) return "selector";
  return ofVolumes.every(selects) ? undefined : "volumes";
}

const architectureLabel = "kubernetes.io/arch";

/** A guess for a node on which no cell has run: `m5.large` and `m5.xlarge` have the same CPU. The restore verifies it. */
function isOfFamily(one: Placement["nodeLabels"], other: Placement["nodeLabels"]): boolean {
  const familyOf = (labels: Placement["nodeLabels"]) => labels[instanceTypeLabel]?.replace(/[.-][^.-]*$/, "");
  return familyOf(one) === familyOf(other);
}

const Requirement = z.object({ key: z.string(), operator: z.string(), values: z.array(z.string()).default([]) });
type Requirement = z.infer<typeof Requirement>;

/** A term of a node selector (Kubernetes API v1.36). */
export const NodeTerm = z.object({
  matchExpressions: z.array(Requirement).default([]),
  matchFields: z.array(Requirement).default([]),
});
export type NodeTerm = z.infer<typeof NodeTerm>;

/** A term without requirements selects no node. */
function isSelected(
  { matchExpressions, matchFields }: NodeTerm,
  name: string,
  labels: Readonly<Record<string, string>>,
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((one) => isMet(one, labels[one.key])) &&
    matchFields.every((one) => isMet(one, one.key === "metadata.name" ? name : undefined))
  );
}

/** A label selector (Kubernetes API v1.36): without requirements, it selects everything. */
export const Selector = z.object({
  matchLabels: z.record(z.string(), z.string()).default({}),
  matchExpressions: z.array(Requirement).default([]),
});

export function selects(selector: z.infer<typeof Selector>, labels: Readonly<Record<string, string>>): boolean {
  const { matchLabels, matchExpressions } = selector;
  const hasLabels = Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
  return hasLabels && matchExpressions.every((one) => isMet(one, labels[one.key]));
}

function isMet({ operator, values }: Requirement, actual: string | undefined): boolean {
  switch (operator) {
    case "In":
      return actual !== undefined && values.includes(actual);
    case "NotIn":
      return actual === undefined || !values.includes(actual);
    case "Exists":
      return actual !== undefined;
    case "DoesNotExist":
      return actual === undefined;
    case "Gt":
      return Number(actual) > Number(values[0]);
    case "Lt":
      return Number(actual) < Number(values[0]);
    default:
      return false;
  }
}

const Spec = z.object({
  tolerations: z.array(Toleration).default([]),
  nodeSelector: z.record(z.string(), z.string()).default({}),
  affinity: z
    .object({
      nodeAffinity: z
        .object({
          requiredDuringSchedulingIgnoredDuringExecution: z.object({ nodeSelectorTerms: z.array(NodeTerm) }).nullish(),
        })
        .nullish(),
    })
    .nullish(),
});

/** @param ofVolumes the terms of the node affinity of each of its volumes that has one */
export function placementOf(
  { spec }: Pick<Pod, "spec">,
  nodeLabels: Placement["nodeLabels"],
  ofVolumes: Placement["terms"] = [],
): Placement {
  const { tolerations, nodeSelector, affinity } = Spec.parse(spec);
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = [required?.nodeSelectorTerms ?? [], ...ofVolumes];
  return {
    nodeName: spec.nodeName ?? "",
    nodeLabels,
    tolerations,
    nodeSelector,
    terms,
    requests: requestsOf({ spec }),
  };
}

export function tolerationsOf({ spec }: { spec: object }): Toleration[] {
  return Spec.parse(spec).tolerations;
}

/** What its containers and sidecars request, and one Pod. */
export function requestsOf({ spec }: Pick<Pod, "spec">): Amounts {
  const sidecars = (spec.initContainers ?? []).filter((one) => one["restartPolicy"] === "Always");
  const all = [...spec.containers, ...sidecars].map((one) => {
    const { requests = {} } = (one["resources"] ?? {}) as { requests?: Record<string, string | number> };
    return amountsOf(requests);
  });
  return added([{ pods: 1 }, ...all]);
}

export function amountsOf(quantities: Readonly<Record<string, string | number>>): Amounts {
  return Object.fromEntries(
    Object.entries(quantities).map(([key, quantity]) => [
      key,
      key === "cpu" ? quantityToMillicores(quantity) : quantityToBytes(quantity),
    ]),
  );
}

export function added(all: readonly Amounts[]): Amounts {
  const sum: Record<string, number> = {};
  for (const amounts of all) for (const [key, amount] of Object.entries(amounts)) sum[key] = (sum[key] ?? 0) + amount;
  return sum;
}

/** What is left of `free`. Resources that it does not have are not added. */
export function without(free: Amounts, used: Amounts): Amounts {
  return Object.fromEntries(Object.entries(free).map(([key, amount]) => [key, amount - (used[key] ?? 0)]));
}
