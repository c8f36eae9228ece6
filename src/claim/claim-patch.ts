import { initRuntimeRequest } from "../api/names/init-request.ts";
import { annotations, labels } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import type { JsonPatchOperation } from "../kube/resource-client.ts";
import type { ClaimRequest } from "./request.ts";

/**
 * The one write of a claim: lock, owner, time and label, what the wish adds, and the set's owner reference gone, so that the
 * set sees at once that it is one short. It fails with `Conflict` if the sandbox is not as it was seen any more.
 *
 * A JSON patch: a merge patch takes as long, and the client would repeat it after a lost answer, when its own first write is
 * what conflicts.
 */
export function claimPatch(sandbox: Sandbox, wish: ClaimRequest, now: Date): JsonPatchOperation[] {
  const { resourceVersion, ownerReferences = [], ...metadata } = sandbox.metadata;
  const owners = ownerReferences.filter(({ kind }) => kind !== "SandboxSet");
  const claimed = claimMetadata(wish, now);
  return [
    // To set the version it has is how a JSON patch asks for the server's own guard, and its 409.
    { op: "replace", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "add", path: "/metadata/labels", value: { ...metadata.labels, ...claimed.labels } },
    { op: "add", path: "/metadata/annotations", value: { ...metadata.annotations, ...claimed.annotations } },
    { op: "add", path: "/metadata/ownerReferences", value: owners },
    ...(wish.shutdownTime === undefined
      ? []
      : [{ op: "add", path: "/spec/shutdownTime", value: wish.shutdownTime } as const]),
  ];
}

/** What a claimed sandbox bears, whether it was taken or made. */
export function claimMetadata(
  wish: ClaimRequest,
  now: Date,
): { labels: Record<string, string>; annotations: Record<string, string> } {
  return {
    labels: {
      ...wish.labels,
      [labels.sandboxClaimed]: "true",
      ...(wish.claimName !== undefined && { [labels.claimName]: wish.claimName }),
    },
    annotations: {
      ...wish.annotations,
      ...(wish.environment && { [annotations.initRuntimeRequest]: initRuntimeRequest(wish.environment) }),
      ...(wish.restoreFrom !== undefined && {
        [annotations.rollbackTo]: wish.restoreFrom,
        [annotations.rollbackRequest]: wish.lock,
      }),
      [annotations.lock]: wish.lock,
      [annotations.owner]: wish.owner,
      [annotations.claimTimestamp]: now.toISOString(),
    },
  };
}
