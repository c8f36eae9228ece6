import { restoreFrom, restoreFromAnnotations } from "../../api/names/labels.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { ClaimWish } from "../../claim/request.ts";

/**
 * What a claim wants each of its sandboxes to be. An annotation `restore-from` says from what a Sandbox is made; one that is
 * claimed is made already, and goes on from that instead.
 * @throws RametError `InvalidArgument` when two of these annotations differ
 */
export function claimWish({ metadata, spec }: SandboxClaim): Omit<ClaimWish, "lock" | "timeoutMilliseconds"> {
  const { labels: own, annotations: notes = {}, envVars, shutdownTime } = spec;
  const from = restoreFrom({ metadata: { annotations: notes }, spec: {} });
  const annotations = Object.fromEntries(Object.entries(notes).filter(([key]) => !isRestoreFrom(key)));
  return {
    namespace: metadata.namespace,
    set: spec.templateName,
    owner: metadata.uid,
    claimName: metadata.name,
    createOnNoStock: spec.createOnNoStock,
    annotations,
    ...(own && { labels: own }),
    ...(envVars && !spec.skipInitRuntime && { environment: envVars }),
    ...(from !== undefined && { restoreFrom: from }),
    ...(shutdownTime !== undefined && { shutdownTime }),
  };
}

function isRestoreFrom(key: string): boolean {
  return (restoreFromAnnotations as readonly string[]).includes(key);
}
