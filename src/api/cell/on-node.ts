import * as z from "zod";

const Term = z.looseObject({ matchFields: z.array(z.unknown()).optional() });
const Affinity = z.looseObject({
  nodeAffinity: z
    .looseObject({
      requiredDuringSchedulingIgnoredDuringExecution: z
        .looseObject({ nodeSelectorTerms: z.array(Term).default([]) })
        .optional(),
    })
    .optional(),
});

/**
 * The affinity of a Pod that must also run on one node. Terms are alternatives, so each of them gets the node. An affinity that is
 * not valid is returned unchanged, and the API server rejects the Pod.
 */
export function onNode(affinity: unknown, node: string): unknown {
  const parsed = Affinity.safeParse(affinity ?? {});
  if (!parsed.success) return affinity;
  const { nodeAffinity } = parsed.data;
  const required = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms ?? [];
  const field = { key: "metadata.name", operator: "In", values: [node] };
  return {
    ...parsed.data,
    nodeAffinity: {
      ...nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: {
        ...required,
        nodeSelectorTerms: (terms.length === 0 ? [{}] : terms).map((term) => ({
          ...term,
          matchFields: [...(term.matchFields ?? []), field],
        })),
      },
    },
  };
}
