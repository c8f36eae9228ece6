import { environmentProblem } from "../../api/schema/rules.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { initRuntimeRequest, type RequestSeal } from "../../api/names/init-request.ts";
import { annotations, labels, restoreFromAnnotations } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { JsonPatchOperation } from "../../kube/resource-client.ts";

/** A request for one sandbox of a set. */
export interface ClaimRequest {
  namespace: string;
  /** The SandboxSet. */
  set: string;
  /** The name of a sandbox that is created. @default derived from the set and the lock */
  name?: string;
  /** The owner: the UID of a SandboxClaim or the id of an API key. */
  owner: string;
  /** A UUID that identifies the request. Repeating it returns the sandbox of the first attempt. */
  lock: string;
  /** The SandboxClaim that makes the request. */
  claimName?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  /** Environment variables of every command that starts after the claim. */
  environment?: Record<string, string>;
  /** Seals the environment, which the Sandbox carries. @default plain text, which the controllers seal */
  seal?: Pick<RequestSeal, "seal">;
  /** A checkpoint id or named snapshot to restore in place. */
  restoreFrom?: string;
  /** The checkpoint or named snapshot from which a new Pod starts. No ready sandbox of the set is taken then. */
  startsFrom?: string;
  /** Whether the memory to restore can be restored in place in a sandbox. Another one gets a new Pod. @default in all */
  fits?: ((sandbox: Sandbox) => boolean) | undefined;
  /** Whether to fail with `Timeout` immediately if no ready sandbox fits. */
  onlyFitting?: boolean;
  /** RFC 3339: when the sandbox is deleted. */
  shutdownTime?: string;
  /** RFC 3339: when the sandbox is paused. */
  pauseTime?: string;
  /** Whether to create a sandbox when none is ready, instead of waiting. */
  createOnNoStock: boolean;
  /** How long to wait for one. */
  timeoutMilliseconds: number;
}

/** @throws RametError `InvalidArgument`, naming the field that a request may not set */
export function validateClaimRequest({ labels = {}, annotations = {}, environment = {} }: Partial<ClaimRequest>): void {
  const restore = Object.keys(annotations).find((key) => (restoreFromAnnotations as readonly string[]).includes(key));
  if (restore !== undefined) {
    throw new RametError("InvalidArgument", `annotations[${restore}]: cannot be set on a sandbox that already exists`, {
      hint: "Use restoreFrom, which restores the checkpoint in place",
    });
  }
  const reserved = [...Object.keys(labels), ...Object.keys(annotations)].find((key) => isReserved(key));
  if (reserved !== undefined) {
    throw new RametError("InvalidArgument", `labels and annotations: ${reserved} is reserved`, {
      hint: "Choose a key that does not begin with agents.kruise.io/ or e2b.agents.kruise.io/",
    });
  }
  const problem = environmentProblem(environment);
  if (problem !== undefined) throw new RametError("InvalidArgument", `envVars: ${problem}`);
}

function isReserved(key: string): boolean {
  return /^(e2b\.)?agents\.kruise\.io\//.test(key);
}

/**
 * The single write of a claim. It sets the lock, the owner, the time, the label and the request's metadata, and removes the set's
 * owner reference, so that the set immediately creates a replacement. It fails with `Conflict` if the sandbox has changed.
 *
 * It is a JSON patch: the client repeats a merge patch after a lost response, and that would conflict with its own first write.
 */
export function claimPatch(sandbox: Sandbox, request: ClaimRequest, now: Date): JsonPatchOperation[] {
  const { resourceVersion, ownerReferences = [], ...metadata } = sandbox.metadata;
  const owners = ownerReferences.filter(({ kind }) => kind !== "SandboxSet");
  const claimed = claimMetadata(request, now);
  return [
    // With the known version, the API server rejects the patch of a changed object with 409.
    { op: "replace", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "add", path: "/metadata/labels", value: { ...metadata.labels, ...claimed.labels } },
    { op: "add", path: "/metadata/annotations", value: { ...metadata.annotations, ...claimed.annotations } },
    { op: "add", path: "/metadata/ownerReferences", value: owners },
    ...Object.entries(timersOf(request)).map(([field, value]) => ({
      op: "add" as const,
      path: `/spec/${field}`,
      value,
    })),
  ];
}

/** The timers of a claimed sandbox, as fields of its spec. */
export function timersOf({ shutdownTime, pauseTime }: ClaimRequest): { shutdownTime?: string; pauseTime?: string } {
  return defined({ shutdownTime, pauseTime });
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
      ...defined({ [labels.claimName]: request.claimName }),
    },
    annotations: {
      ...request.annotations,
      ...environmentAnnotation(request),
      ...defined({ [restoreFromAnnotations[0]]: request.startsFrom }),
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

function environmentAnnotation({ namespace, environment, seal }: ClaimRequest): Record<string, string> {
  if (environment === undefined) return {};
  const text = initRuntimeRequest(environment);
  if (seal === undefined) return { [annotations.initRuntimeRequest]: text };
  return { [annotations.sealedInitRequest]: seal.seal(namespace, text) };
}
