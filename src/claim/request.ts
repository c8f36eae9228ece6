import { RametError } from "../base/errors.ts";
import { restoreFromAnnotations } from "../api/names/labels.ts";

/** A request for one sandbox of a set. */
export interface ClaimRequest {
  namespace: string;
  /** The SandboxSet. */
  set: string;
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
  /** A checkpoint id or named snapshot to restore in place. */
  restoreFrom?: string;
  /** RFC 3339: when the sandbox is deleted. */
  shutdownTime?: string;
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
  const unnamed = Object.keys(environment).find((name) => name === "" || /[=\0]/.test(name));
  if (unnamed !== undefined) {
    throw new RametError("InvalidArgument", `envVars: ${JSON.stringify(unnamed)} is not a valid variable name`);
  }
}

function isReserved(key: string): boolean {
  return /^(e2b\.)?agents\.kruise\.io\//.test(key);
}
