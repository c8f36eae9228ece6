import { type Credentials, credentialsOf } from "../../api/credentials/credentials.ts";
import { sealIdentity } from "../../api/credentials/credential-seal.ts";
import { digestOf } from "../../api/schema/digest.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { CredentialKeys } from "../../backends/credential-keys.ts";
import { RametError } from "../../base/errors.ts";

/** The credentials that a sandbox should have. Without values: only references, and texts that a client has sealed. */
export interface WantedCredentials {
  /** Undefined: none. */
  credentials: Credentials | undefined;
  digest: string;
  problem?: RametError;
}

/** @param template the sandbox's own, or the one that was kept with its checkpoint */
export function wantedCredentials(
  { metadata }: Sandbox,
  template: PodTemplateSpec | undefined,
  { credentialKeys }: { credentialKeys: Pick<CredentialKeys, "open"> },
): WantedCredentials {
  const open = (namespace: string, sealed: string) => credentialKeys.open(sealIdentity(namespace, "sandbox"), sealed);
  try {
    const credentials = credentialsOf({ template: template?.metadata, sandbox: metadata }, open);
    return { credentials, digest: digestOf(credentials ?? null) };
  } catch (error) {
    const problem = RametError.from(error);
    return { credentials: undefined, digest: digestOf(problem.message), problem };
  }
}
