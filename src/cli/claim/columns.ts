import { SandboxClaim, type SandboxClaim as SandboxClaimObject } from "../../api/kinds/sandbox-claim.ts";
import type { KubeObject } from "../../kube/object.ts";
import { age } from "../output/age.ts";
import type { Column } from "../output/render.ts";

/** The table of claims. */
export const claimColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "PHASE", cell: (object) => readable(object, ({ status }) => status?.phase ?? "") },
  { heading: "SET", cell: (object) => readable(object, ({ spec }) => spec.templateName) },
  {
    heading: "CLAIMED",
    cell: (object) => readable(object, ({ spec, status }) => `${status?.claimedReplicas ?? 0}/${spec.replicas}`),
  },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => readable(object, ({ status }) => status?.message ?? "") },
];

function readable(object: KubeObject, cell: (claim: SandboxClaimObject) => string): string {
  const { data } = SandboxClaim.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}
