import * as z from "zod";

/** Where a Pod may run, in addition to what its template says. */
export interface NodeLimits {
  /** The only node. @default any */
  node?: string | undefined;
  avoided?: AvoidedNodes | undefined;
}

/** Nodes that cannot run a Pod. */
export interface AvoidedNodes {
  names: readonly string[];
  /** Values of the label `node.kubernetes.io/instance-type`: all nodes of these types. */
  instanceTypes: readonly string[];
  /** Nodes that are known to fit, if others are not known. */
  preferred?: { label: string; values: readonly string[] } | undefined;
}

export const instanceTypeLabel = "node.kubernetes.io/instance-type";
export const hostNameLabel = "kubernetes.io/hostname";

/**
 * The affinity of a Pod with these limits. Terms are alternatives, so each of them gets all requirements. An affinity that is not
 * valid is returned unchanged, and the API server rejects the Pod.
 */
export function limitedAffinity(affinity: unknown, limits: NodeLimits): unknown {
  const parsed = Affinity.safeParse(affinity ?? {});
  if (!parsed.success) return affinity;
  const { nodeAffinity } = parsed.data;
  const required = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms ?? [];
  const fields = fieldsOf(limits);
  const expressions = expressionsOf(limits);
  const preferred = preferenceOf(limits);
  return {
    ...parsed.data,
    nodeAffinity: {
      ...nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: {
        ...required,
        nodeSelectorTerms: (terms.length === 0 ? [{}] : terms).map((term) => ({
          ...term,
          ...(fields.length > 0 && { matchFields: [...(term.matchFields ?? []), ...fields] }),
          ...(expressions.length > 0 && { matchExpressions: [...(term.matchExpressions ?? []), ...expressions] }),
        })),
      },
      ...(preferred.length > 0 && {
        preferredDuringSchedulingIgnoredDuringExecution: [
          ...(nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []),
          ...preferred,
        ],
      }),
    },
  };
}

/** The nodes that an affinity excludes by their names. */
export function excludedNodes(affinity: unknown): string[] {
  const required = Affinity.safeParse(affinity ?? {}).data?.nodeAffinity
    ?.requiredDuringSchedulingIgnoredDuringExecution;
  const all = required?.nodeSelectorTerms.flatMap(({ matchFields = [] }) => matchFields) ?? [];
  return all.flatMap((one) => Excluded.safeParse(one).data?.values ?? []);
}

const Excluded = z.object({
  key: z.literal("metadata.name"),
  operator: z.literal("NotIn"),
  values: z.array(z.string()),
});

const Term = z.looseObject({
  matchFields: z.array(z.unknown()).optional(),
  matchExpressions: z.array(z.unknown()).optional(),
});
const Affinity = z.looseObject({
  nodeAffinity: z
    .looseObject({
      requiredDuringSchedulingIgnoredDuringExecution: z
        .looseObject({ nodeSelectorTerms: z.array(Term).default([]) })
        .optional(),
      preferredDuringSchedulingIgnoredDuringExecution: z.array(z.unknown()).optional(),
    })
    .optional(),
});

/** A field can be compared with one value only (Kubernetes v1.36, ValidateNodeFieldSelectorRequirement). */
function fieldsOf({ node, avoided }: NodeLimits): object[] {
  const key = "metadata.name";
  return [
    ...(node === undefined ? [] : [{ key, operator: "In", values: [node] }]),
    ...(avoided?.names ?? []).map((name) => ({ key, operator: "NotIn", values: [name] })),
  ];
}

/** `NotIn` also selects nodes without the label. */
function expressionsOf({ avoided }: NodeLimits): object[] {
  const types = avoided?.instanceTypes ?? [];
  return types.length === 0 ? [] : [{ key: instanceTypeLabel, operator: "NotIn", values: [...types] }];
}

function preferenceOf({ avoided }: NodeLimits): object[] {
  const preferred = avoided?.preferred;
  if (preferred === undefined) return [];
  const { label: key, values } = preferred;
  return [{ weight: 100, preference: { matchExpressions: [{ key, operator: "In", values: [...values] }] } }];
}
