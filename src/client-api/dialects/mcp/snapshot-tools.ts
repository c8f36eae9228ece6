import * as z from "zod";
import { defaultTag } from "../../../api/snapshot/snapshot-tags.ts";
import { defined } from "../../../base/defined.ts";
import { createSnapshot, listSnapshots, type Snapshot } from "../../service/snapshots.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import { objectOf } from "../../../operations/objects.ts";
import { requestRollback, untilRolledBack } from "../../../operations/roll-back.ts";
import { takeSnapshot } from "../../service/key-limits.ts";
import type { ServiceParts } from "../../service/parts.ts";
import { currentSource } from "../../service/source.ts";
import { needs } from "../../keys/needs.ts";
import { runningSandbox, SandboxName, sandboxView, waitMilliseconds } from "./find.ts";
import { addTool, type ToolParts } from "./tool.ts";

const mostListed = 200;

/** Captures sandboxes, and restores what was captured. */
export function snapshotTools(parts: ToolParts): void {
  const { service, actor } = parts;
  addTool(parts, {
    name: "create_snapshot",
    description:
      "Capture a sandbox with its memory, processes and files. It keeps running. Use the returned snapshot with create_sandbox and rollback_sandbox.",
    input: {
      sandbox: SandboxName,
      name: z
        .string()
        .regex(/^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/)
        .optional()
        .describe("Names the snapshot: the next one with this name is its next version. Default: an id only"),
    },
    hints: { readOnlyHint: false, destructiveHint: false },
    needs: needs.capture,
    call: async ({ sandbox: text, name }, signal) => {
      if (name !== undefined) await actor.require(...needs.nameSnapshot);
      takeSnapshot(service, actor);
      const sandbox = await runningSandbox(parts, text, signal);
      const snapshot = await createSnapshot(service, sandbox, {
        owner: actor.key,
        ...(name !== undefined && { name: { name, tag: defaultTag } }),
        timeoutMilliseconds: waitMilliseconds,
        signal,
      });
      return { json: snapshotView(snapshot) };
    },
  });
  addTool(parts, {
    name: "list_snapshots",
    description: "List the snapshots from which sandboxes can be created, newest first.",
    input: {},
    hints: { readOnlyHint: true },
    needs: needs.listSnapshots,
    call: () => {
      const all = listSnapshots(service, actor.namespace);
      const snapshots = all.slice(0, mostListed).map(snapshotView);
      return Promise.resolve({ json: { snapshots, ...(all.length > mostListed && { of: all.length }) } });
    },
  });
  addTool(parts, {
    name: "rollback_sandbox",
    description:
      "Restore a snapshot in a sandbox, in place: its memory, processes and files become those of the snapshot, and everything since is lost.",
    input: { sandbox: SandboxName, snapshot: z.string().min(1).max(300).describe("A snapshot of this sandbox") },
    hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    needs: needs.change,
    call: async ({ sandbox: text, snapshot }, signal) => {
      const sandbox = await runningSandbox(parts, text, signal);
      const restored = await rollBack(service, sandbox, snapshot, signal);
      const { programs } = restored.status?.ramet?.rollback ?? {};
      return { json: { ...sandboxView(parts, restored), ...defined({ programs }) } };
    },
  });
}

function snapshotView({ id, createdAt, named }: Snapshot) {
  return defined({ snapshot: id, created: createdAt, version: named?.version });
}

/**
 * Restores a checkpoint or a named snapshot in a sandbox, in place, and waits until the sandbox has its state.
 * @param to as the client wrote it
 * @throws RametError `NotFound`; `InvalidArgument` for a set or template; `Timeout`; the error of the rollback, after which the sandbox
 *   is unchanged unless the error says otherwise
 */
async function rollBack(parts: ServiceParts, sandbox: Sandbox, to: string, signal: AbortSignal): Promise<Sandbox> {
  const { name, namespace } = sandbox.metadata;
  const source = await currentSource({ ...parts, aliases: new Map() }, namespace, to, signal);
  if (source.kind !== "checkpoint") {
    const what = `Cannot roll back the sandbox ${name}: ${to} is a ${source.kind}, which has no captured state`;
    throw new RametError("InvalidArgument", what, { hint: "Name a checkpoint or a named snapshot" });
  }
  const requested = await requestRollback(parts.objects, sandbox, { to: source.reference }, signal);
  return objectOf(await untilRolledBack(parts.objects, requested, { timeoutMilliseconds: waitMilliseconds, signal }));
}
