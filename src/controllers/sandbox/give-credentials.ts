import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { type SandboxRef, sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { keyOf } from "../../kube/object.ts";
import { wantedCredentials } from "./gather-credentials.ts";
import type { SandboxAction, SandboxDependencies } from "./state.ts";

/** Gives the cell of a sandbox its credentials before the sandbox starts, so that no request leaves without them. */
export async function giveFirstCredentials(
  sandbox: Sandbox,
  { target, template }: { target: SandboxRef; template: PodTemplateSpec },
  dependencies: SandboxDependencies,
): Promise<void> {
  const { credentials, problem } = wantedCredentials(sandbox, template, dependencies);
  if (problem !== undefined) throw problem;
  if (credentials === undefined) return;
  const resolved = await dependencies.credentialValues.resolve(sandbox.metadata.namespace, credentials);
  await dependencies.runtime.setCredentials(target, resolved.credentials);
}

/** How long to wait after the cell or the sealed text was refused. */
const refusedMilliseconds = 60_000;

/** Gives the cell of a running sandbox its credentials. Repeated until all references can be resolved and the cell has answered. */
export function setCredentials(
  sandbox: Sandbox,
  { pod, credentials, digest }: Extract<SandboxAction, { do: "setCredentials" }>,
  { credentialCalls, credentialValues, runtime, clock, enqueue }: SandboxDependencies,
): void {
  const { uid } = pod.metadata;
  if (credentialCalls.get(uid)?.state !== "running") credentialCalls.forget(uid);
  const call = async () => {
    try {
      const resolved = await credentialValues.resolve(sandbox.metadata.namespace, credentials);
      await runtime.setCredentials(sandboxRef(sandbox, pod), resolved.credentials);
      return { digest, again: resolved.again };
    } catch (thrown) {
      const error = RametError.from(thrown);
      if (!error.retryable) return { digest, again: new Date(clock.now().getTime() + refusedMilliseconds), error };
      throw new RametError("Unavailable", error.message, {
        retryable: true,
        cause: error,
        ...(error.hint !== undefined && { hint: error.hint }),
      });
    }
  };
  credentialCalls.start(uid, call, () => {
    enqueue(keyOf(sandbox.metadata));
  });
}
