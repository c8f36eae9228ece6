import * as z from "zod";
import type { Pod } from "../api/schema/pod.ts";
import type { ClusterNode } from "./cluster-facts.ts";

/**
 * Whether a node is Ready and accepts a Pod by its labels and taints (Kubernetes v1.36, NodeAffinity and TaintToleration of the
 * scheduler). What is free on the node, volumes and other Pods are not compared.
 */
export function couldRun(node: ClusterNode, pod: Pod): boolean {
  const { unschedulable = false, taints = [] } = node.spec;
  const isReady = node.status.conditions.some(({ type, status }) => type === "Ready" && status === "True");
  const parsed = Placement.safeParse(pod.spec);
  if (!isReady || unschedulable || !parsed.success) return false;
  const { nodeSelector, tolerations } = parsed.data;
  const isTolerated = taints.every(
    (taint) => taint.effect === "PreferNoSchedule" || tolerations.some((one) => tolerates(one, taint)),
  );
  const nodeLabels = node.metadata.labels ?? {};
  const hasLabels = Object.entries(nodeSelector).every(([key, value]) => nodeLabels[key] === value);
  return isTolerated && hasLabels && meetsAffinity(node, parsed.data);
}

const Requirement = z.looseObject({ key: z.string(), operator: z.string(), values: z.array(z.string()).default([]) });
type Requirement = z.infer<typeof Requirement>;
const Term = z.looseObject({
  matchExpressions: z.array(Requirement).default([]),
  matchFields: z.array(Requirement).default([]),
});
const Toleration = z.looseObject({
  key: z.string().default(""),
  operator: z.string().default("Equal"),
  value: z.string().default(""),
  effect: z.string().default(""),
});
const Placement = z.looseObject({
  nodeSelector: z.record(z.string(), z.string()).default({}),
  tolerations: z.array(Toleration).default([]),
  affinity: z
    .looseObject({
      nodeAffinity: z
        .looseObject({
          requiredDuringSchedulingIgnoredDuringExecution: z
            .looseObject({ nodeSelectorTerms: z.array(Term) })
            .optional(),
        })
        .optional(),
    })
    .optional(),
});

type Taint = NonNullable<ClusterNode["spec"]["taints"]>[number];

function tolerates({ key, operator, value, effect }: z.infer<typeof Toleration>, taint: Taint): boolean {
  if (effect !== "" && effect !== taint.effect) return false;
  if (key === "") return operator === "Exists";
  return key === taint.key && (operator === "Exists" || value === (taint.value ?? ""));
}

function meetsAffinity(node: ClusterNode, { affinity }: z.infer<typeof Placement>): boolean {
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms === undefined || terms.some((term) => meets(node, term));
}

/** A term without requirements matches no node. */
function meets({ metadata }: ClusterNode, { matchExpressions, matchFields }: z.infer<typeof Term>): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((one) => holds(one, metadata.labels?.[one.key])) &&
    matchFields.every((one) => one.key === "metadata.name" && holds(one, metadata.name))
  );
}

function holds({ operator, values }: Requirement, value: string | undefined): boolean {
  if (operator === "DoesNotExist") return value === undefined;
  if (operator === "NotIn") return value === undefined || !values.includes(value);
  if (value === undefined) return false;
  if (operator === "In") return values.includes(value);
  if (operator === "Gt") return Number(value) > Number(values[0]);
  if (operator === "Lt") return Number(value) < Number(values[0]);
  return operator === "Exists";
}
