import { randomUUID } from "node:crypto";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { ServiceParts } from "./parts.ts";
import { rollbackResult } from "./rollback-result.ts";
import { findSource } from "./source.ts";

export interface RollBack {
  /** The id of a checkpoint, or a named snapshot, as the client wrote it. */
  to: string;
  timeoutMilliseconds: number;
  signal: AbortSignal;
}

/**
 * Restores a checkpoint in a sandbox, in place, and waits until the sandbox has its state.
 * @throws RametError `NotFound` for an unknown checkpoint; `InvalidArgument` for a set or template; `Timeout`; the error of the
 *   rollback, after which the sandbox is unchanged unless the error says otherwise
 */
export async function rollBackSandbox(parts: ServiceParts, sandbox: Sandbox, rollBack: RollBack): Promise<Sandbox> {
  const { name, namespace, uid } = sandbox.metadata;
  const source = findSource({ known: parts.known, aliases: new Map() }, namespace, rollBack.to);
  if (source.kind !== "checkpoint") {
    const what = `Cannot roll back the sandbox ${name}: ${rollBack.to} is a ${source.kind}, which has no captured state`;
    throw new RametError("InvalidArgument", what, { hint: "Name a checkpoint or a named snapshot" });
  }
  const { resource } = parts.informers.sandboxes;
  const request = { [annotations.rollbackTo]: source.reference, [annotations.rollbackRequest]: randomUUID() };
  const written = await parts.writes.write(sandbox, () =>
    resource.mergePatch(sandbox.metadata, { metadata: { uid, annotations: request } }),
  );
  const digest = rollbackRequest(written)?.digest ?? "";
  let last = "it is pending";
  const result = await parts.sandboxes
    .until(
      uid,
      (current) => {
        last = findCondition(current?.status?.conditions, "RolledBack")?.message ?? last;
        return rollbackResult(name, current, digest);
      },
      { what: `The rollback of the sandbox ${name}`, ...rollBack },
    )
    .catch((error: unknown) => {
      const known = RametError.from(error);
      throw known.code === "Timeout" ? new RametError("Timeout", `${known.message}: ${last}`, { cause: error }) : known;
    });
  if ("failure" in result) throw result.failure;
  return result.object;
}
