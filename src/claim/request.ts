import { RametError } from "../base/errors.ts";
import { restoreFromAnnotations } from "../api/names/labels.ts";

/** Who wants a sandbox of which set, and what it is to bear. */
export interface ClaimRequest {
  namespace: string;
  /** The SandboxSet. */
  set: string;
  /** Who it is for: the UID of a SandboxClaim, the id of an API key. */
  owner: string;
  /** Names this wish for one sandbox: a UUID. The same wish again finds the sandbox that it got the first time. */
  lock: string;
  /** The SandboxClaim that wants it. */
  claimName?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  /** Variables that every command started from now on gets. */
  environment?: Record<string, string>;
  /** What is to take the place of what the sandbox runs: a checkpoint id, or a named snapshot. */
  restoreFrom?: string;
  /** RFC 3339: when the sandbox is deleted. */
  shutdownTime?: string;
  /** Where nothing is ready: make a sandbox, else wait for one. */
  createOnNoStock: boolean;
  /** How long to wait for one. */
  timeoutMilliseconds: number;
}

/** @throws RametError `InvalidArgument` naming what a wish may not say */
export function validateClaimRequest({ labels = {}, annotations = {}, environment = {} }: Partial<ClaimRequest>): void {
  const restore = Object.keys(annotations).find((key) => (restoreFromAnnotations as readonly string[]).includes(key));
  if (restore !== undefined) {
    throw new RametError("InvalidArgument", `annotations[${restore}]: a sandbox that is claimed is made already`, {
      hint: "Say it as restoreFrom: the checkpoint goes on in the place of what the sandbox runs",
    });
  }
  const reserved = [...Object.keys(labels), ...Object.keys(annotations)].find((key) => isReserved(key));
  if (reserved !== undefined) {
    throw new RametError("InvalidArgument", `labels and annotations: ${reserved} is not for users`, {
      hint: "Choose a key that does not begin with agents.kruise.io/ or e2b.agents.kruise.io/",
    });
  }
  const unnamed = Object.keys(environment).find((name) => name === "" || /[=\0]/.test(name));
  if (unnamed !== undefined) {
    throw new RametError("InvalidArgument", `envVars: ${JSON.stringify(unnamed)} is no name of a variable`);
  }
}

function isReserved(key: string): boolean {
  return /^(e2b\.)?agents\.kruise\.io\//.test(key);
}
