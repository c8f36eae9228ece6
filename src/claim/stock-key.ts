import { annotations, labels } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { isConditionTrue } from "../kube/conditions.ts";

/**
 * The set whose stock a sandbox is, as `namespace/name`; undefined of one that nobody can claim now. Only what a set owns is
 * stock: labels alone are anybody's to write.
 */
export function stockKey(sandbox: Sandbox): string | undefined {
  const { metadata } = sandbox;
  const set = metadata.labels?.[labels.sandboxPool];
  const isOwned = metadata.ownerReferences?.some(({ kind, name }) => kind === "SandboxSet" && name === set);
  if (set === undefined || isOwned !== true) return undefined;
  return isFree(sandbox) && isReady(sandbox) ? `${metadata.namespace}/${set}` : undefined;
}

function isFree({ metadata }: Sandbox): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return metadata.labels?.[labels.sandboxClaimed] === "false" && metadata.annotations?.[annotations.lock] === undefined;
}

function isReady({ spec, status }: Sandbox): boolean {
  return status?.phase === "Running" && spec.paused !== true && isConditionTrue(status.conditions, "Ready");
}
