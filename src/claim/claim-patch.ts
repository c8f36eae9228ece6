import { initRuntimeRequest } from "../api/names/init-request.ts";
import { annotations, labels } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import type { JsonPatchOperation } from "../kube/resource-client.ts";
import type { ClaimRequest } from "./request.ts";

/**
 * The single write of a claim. It sets the lock, the owner, the time, the label and the request's metadata, and removes the set's
 * owner reference, so that the set immediately creates a replacement. It fails with `Conflict` if the sandbox has changed.
 *
 * A JSON patch: a merge patch takes as long, and the client would repeat it after a lost answer, when its own first write is
 * what conflicts.
 */
export function claimPatch(sandbox: Sandbox, request: ClaimRequest, now: Date): JsonPatchOperation[] {
  const { resourceVersion, ownerReferences = [], ...metadata } = sandbox.metadata;
  const owners = ownerReferences.filter(({ kind }) => kind !== "SandboxSet");
  const claimed = claimMetadata(request, now);
  return [
    // To set the version it has is how a JSON patch asks for the server's own guard, and its 409.
    { op: "replace", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "add", path: "/metadata/labels", value: { ...metadata.labels, ...claimed.labels } },
    { op: "add", path: "/metadata/annotations", value: { ...metadata.annotations, ...claimed.annotations } },
    { op: "add", path: "/metadata/ownerReferences", value: owners },
    ...(request.shutdownTime === undefined
      ? []
      : [{ op: "add", path: "/spec/shutdownTime", value: request.shutdownTime } as const]),
  ];
}

/** The metadata of a claimed sandbox, whether it was taken from the set or created. */
export function claimMetadata(
  request: ClaimRequest,
  now: Date,
): { labels: Record<string, string>; annotations: Record<string, string> } {
  return {
    labels: {
      ...request.labels,
      [labels.sandboxClaimed]: "true",
      ...(request.claimName !== undefined && { [labels.claimName]: request.claimName }),
    },
    annotations: {
      ...request.annotations,
      ...(request.environment && { [annotations.initRuntimeRequest]: initRuntimeRequest(request.environment) }),
      ...(request.restoreFrom !== undefined && {
        [annotations.rollbackTo]: request.restoreFrom,
        [annotations.rollbackRequest]: request.lock,
      }),
      [annotations.lock]: request.lock,
      [annotations.owner]: request.owner,
      [annotations.claimTimestamp]: now.toISOString(),
    },
  };
}
