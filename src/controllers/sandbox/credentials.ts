import { type Credentials, credentialsOf } from "../../api/credentials/credentials.ts";
import { sealIdentity } from "../../api/credentials/credential-seal.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { digestOf } from "../../api/schema/digest.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { LinkCredentials } from "../../api/wire/cell-api.ts";
import type { CredentialKeys } from "../../backends/environment-seal.ts";
import { type SandboxRef, sandboxRef } from "../../backends/runtime.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxAction, WantedCredentials } from "./state.ts";

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

/** Gives the cell of a sandbox its credentials before the sandbox starts, so that no request leaves without them. */
export async function giveFirstCredentials(
  sandbox: Sandbox,
  { target, template, signal }: { target: SandboxRef; template: PodTemplateSpec; signal: AbortSignal },
  dependencies: SandboxDependencies,
): Promise<void> {
  const { credentials, problem } = wantedCredentials(sandbox, template, dependencies);
  if (problem !== undefined) throw problem;
  if (credentials === undefined) return;
  const resolved = await dependencies.credentialValues
    .resolve(sandbox.metadata.namespace, credentials)
    .catch(untilCreated);
  await dependencies.runtime.setCredentials(target, resolved.credentials, signal);
}

/** A deleted secret must not be used any longer, and nothing must leave without the proxy: link refuses this address. */
function withdrawn(credentials: Credentials | undefined): LinkCredentials {
  return { rules: [], ...(credentials?.egressProxy && { proxy: { address: "0.0.0.0:1" } }) };
}

/** The call is repeated until a missing object exists. */
function untilCreated(thrown: unknown): never {
  const error = RametError.from(thrown);
  if (error.code !== "NotFound") throw error;
  const { message, hint } = error;
  throw new RametError("Unavailable", message, {
    retryable: true,
    cause: error,
    ...defined({ hint }),
  });
}

/** How long to wait for a missing object. A change of the credentials is applied earlier. */
const missingMilliseconds = 5_000;
/** How long to wait after the cell or the sealed text was refused. */
const refusedMilliseconds = 60_000;

/** Gives the cell of a running sandbox its credentials. Repeated until the API server and the cell have answered. */
export function setCredentials(
  sandbox: Sandbox,
  { pod, credentials, digest }: Extract<SandboxAction, { do: "setCredentials" }>,
  { calls, credentialValues, runtime, clock }: SandboxDependencies,
): void {
  calls.start(sandbox, pod, "credentialsCall", async (signal) => {
    const set = async (given: LinkCredentials): Promise<void> => {
      // Another Pod can have the address by now.
      await runtime.setCredentials(await runtime.identified(sandboxRef(sandbox, pod), signal), given, signal);
    };
    /** Returns why the credentials are not in effect. */
    const withdraw = async (error: RametError): Promise<RametError> => {
      if (error.code !== "NotFound") return error;
      return set(withdrawn(credentials)).then(
        () => error,
        (failed: unknown) => RametError.from(failed),
      );
    };
    try {
      const resolved = await credentialValues.resolve(sandbox.metadata.namespace, credentials);
      await set(resolved.credentials);
      return { digest, again: resolved.again };
    } catch (thrown) {
      const error = await withdraw(RametError.from(thrown));
      const wait = error.code === "NotFound" ? missingMilliseconds : refusedMilliseconds;
      if (!error.retryable) return { digest, again: new Date(clock.now().getTime() + wait), error };
      throw new RametError("Unavailable", error.message, {
        retryable: true,
        cause: error,
        ...defined({ hint: error.hint }),
      });
    }
  });
}
