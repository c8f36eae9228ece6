import { randomUUID } from "node:crypto";
import * as z from "zod";
import type { Checkpoint } from "../../../api/kinds/checkpoint.ts";
import { defaultTag } from "../../../api/snapshot/snapshot-reference.ts";
import { defined } from "../../../base/defined.ts";
import { objectOf } from "../../../operations/objects.ts";
import { needs } from "../../keys/needs.ts";
import {
  awaitCheckpoint,
  checkRestorable,
  checkpointsOf,
  clientCheckpointId,
  clientCheckpointName,
  findCheckpoint,
  restoreInPlace,
  startCheckpoint,
} from "../../service/checkpoints.ts";
import { takeSnapshot } from "../../service/key-limits.ts";
import { compareVersions } from "../../service/snapshot-versions.ts";
import { type Snapshot, createSnapshot, listSnapshots } from "../../service/snapshots.ts";
import {
  SandboxName,
  type ToolParts,
  addTool,
  runningSandbox,
  sandboxOf,
  sandboxView,
  waitMilliseconds,
} from "./tool.ts";

const mostListed = 200;

/** Captures sandboxes, and restores what was captured. */
export function snapshotTools(parts: ToolParts): void {
  const { service, actor } = parts;
  addTool(parts, {
    name: "create_snapshot",
    description:
      "Capture a sandbox with its memory, processes and files. It keeps running. Use the returned snapshot with create_sandbox and restore.",
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
    name: "checkpoint",
    description:
      "Capture a sandbox with its memory, processes and files, and return immediately. It keeps running. Call wait before restore or create_sandbox use the checkpoint.",
    input: {
      sandbox: SandboxName,
      name: z.string().min(1).max(100).optional().describe("Unique among the checkpoints of the sandbox"),
    },
    hints: { readOnlyHint: false, destructiveHint: false },
    needs: needs.capture,
    call: async ({ sandbox: text, name }, signal) => {
      takeSnapshot(service, actor);
      const sandbox = await sandboxOf(parts, text, signal);
      const start = { owner: actor.key, name, requestId: randomUUID(), signal };
      return { json: checkpointView(await startCheckpoint(service, sandbox, start)) };
    },
  });
  addTool(parts, {
    name: "wait",
    description: "Wait until a checkpoint can be used. If it takes longer than the time limit, call this again.",
    input: {
      checkpoint: z.string().min(1).max(300).describe("The id or the name of the checkpoint"),
      sandbox: SandboxName.optional().describe("Whose checkpoint it is, if others have one of that name"),
      timeout_seconds: z.number().min(1).max(50).default(50).describe("How long to wait"),
    },
    hints: { readOnlyHint: true },
    needs: needs.listSnapshots,
    call: async ({ checkpoint, sandbox: text, timeout_seconds }, signal) => {
      const sandbox = text === undefined ? undefined : await sandboxOf(parts, text, signal);
      const found = await findCheckpoint(service, { namespace: actor.namespace, sandbox }, checkpoint);
      const wait = { timeoutMilliseconds: timeout_seconds * 1000, signal };
      return { json: checkpointView(objectOf(await awaitCheckpoint(service, found, wait))) };
    },
  });
  addTool(parts, {
    name: "diff",
    description: "Compare two versions of named snapshots: steps, inputs, image, contents, layers and sizes.",
    input: {
      from: z.string().min(1).max(300).describe("A version, as name@version, or a name for the current version"),
      to: z.string().min(1).max(300),
    },
    hints: { readOnlyHint: true },
    needs: needs.readTemplate,
    call: async (compared, signal) => ({
      json: { ...(await compareVersions(service, actor.namespace, compared, signal)) },
    }),
  });
  addTool(parts, {
    name: "restore",
    description:
      "Restore a snapshot or a checkpoint in a sandbox, in place: its memory, processes and files become those of the snapshot, and everything since is lost.",
    input: {
      sandbox: SandboxName,
      snapshot: z
        .string()
        .min(1)
        .max(300)
        .describe("A snapshot, or the id or the name of a checkpoint of this sandbox"),
    },
    hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    needs: needs.change,
    call: async ({ sandbox: text, snapshot }, signal) => {
      const sandbox = await runningSandbox(parts, text, signal);
      const own = checkpointsOf(service, sandbox).find((each) => clientCheckpointName(each) === snapshot);
      if (own !== undefined) checkRestorable(own);
      const restored = await restoreInPlace(service, sandbox, own === undefined ? snapshot : clientCheckpointId(own), {
        timeoutMilliseconds: waitMilliseconds,
        signal,
      });
      const { programs } = restored.status?.ramet?.rollback ?? {};
      return { json: { ...sandboxView(parts, restored), ...defined({ programs }) } };
    },
  });
}

function checkpointView(checkpoint: Checkpoint) {
  const { metadata, status } = checkpoint;
  return defined({
    checkpoint: clientCheckpointId(checkpoint),
    name: clientCheckpointName(checkpoint),
    phase: status?.phase ?? "Pending",
    created: metadata.creationTimestamp,
    bytes: status?.ramet?.sizeBytes,
  });
}

function snapshotView({ id, createdAt, named }: Snapshot) {
  return defined({ snapshot: id, created: createdAt, version: named?.version });
}
