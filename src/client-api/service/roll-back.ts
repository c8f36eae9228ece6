import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { objectOf, type Wait } from "../../operations/objects.ts";
import { requestRollback, untilRolledBack } from "../../operations/roll-back.ts";
import type { ServiceParts } from "./parts.ts";
import { currentSource } from "./source.ts";

export interface RollBack extends Wait {
  /** The id of a checkpoint, or a named snapshot, as the client wrote it. */
  to: string;
}

/**
 * Restores a checkpoint in a sandbox, in place, and waits until the sandbox has its state.
 * @throws RametError `NotFound` for an unknown checkpoint; `InvalidArgument` for a set or template; `Timeout`; the error of the
 *   rollback, after which the sandbox is unchanged unless the error says otherwise
 */
export async function rollBackSandbox(
  parts: ServiceParts,
  sandbox: Sandbox,
  { to, ...wait }: RollBack,
): Promise<Sandbox> {
  const { name, namespace } = sandbox.metadata;
  const source = await currentSource({ ...parts, aliases: new Map() }, namespace, to, wait.signal);
  if (source.kind !== "checkpoint") {
    const what = `Cannot roll back the sandbox ${name}: ${to} is a ${source.kind}, which has no captured state`;
    throw new RametError("InvalidArgument", what, { hint: "Name a checkpoint or a named snapshot" });
  }
  const requested = await requestRollback(parts.objects, sandbox, { to: source.reference }, wait.signal);
  return objectOf(await untilRolledBack(parts.objects, requested, wait));
}
