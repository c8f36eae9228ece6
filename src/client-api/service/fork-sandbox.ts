import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { createSandbox, type CreateSandbox } from "./create-sandbox.ts";
import type { ServiceParts } from "./parts.ts";
import { capture } from "./snapshots.ts";

export interface ForkSandbox extends Omit<CreateSandbox, "source" | "requestId" | "namespace"> {
  count: number;
}

/** One requested clone. They succeed or fail independently. */
export type ForkResult = { sandbox: Sandbox } | { error: RametError };

/**
 * Captures a running sandbox with its memory once, and creates clones of it. The checkpoint expires after an hour: clones that are
 * ready no longer need it.
 * @throws RametError the error of the capture
 */
export async function forkSandbox(parts: ServiceParts, source: Sandbox, fork: ForkSandbox): Promise<ForkResult[]> {
  const { count, timeoutMilliseconds, signal, ...clone } = fork;
  const contents = ["memory", "filesystem"];
  const checkpoint = await capture(parts, source, {
    owner: fork.owner,
    contents,
    ttl: "1h",
    timeoutMilliseconds,
    signal,
  });
  const { namespace } = source.metadata;
  const id = checkpoint.status?.checkpointId ?? "";
  const request = { ...clone, namespace, source: id, timeoutMilliseconds, signal };
  return Promise.all(
    Array.from({ length: count }, () =>
      createSandbox(parts, request).then(
        (sandbox) => ({ sandbox }),
        (error: unknown) => ({ error: RametError.from(error) }),
      ),
    ),
  );
}
