import { randomUUID } from "node:crypto";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { completed } from "../../../operations/capture.ts";
import { objectOf } from "../../../operations/objects.ts";
import { requestRollback, untilRolledBack } from "../../../operations/roll-back.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { startCheckpoint } from "../../service/checkpoints.ts";
import { forkPaused } from "../../service/clone-sandbox.ts";
import { deleteSnapshot } from "../../service/delete-snapshot.ts";
import { sandboxIdOf, uidOf, unknown } from "../../service/find-sandbox.ts";
import { takeSnapshot, withinSandboxLimit } from "../../service/key-limits.ts";
import { hasFailedPause, verifiedState } from "../../service/lifecycle.ts";
import { listSnapshots, type Snapshot, unnamed } from "../../service/snapshots.ts";
import { findCheckpoint } from "../../service/start-under.ts";
import { Forked, Restored, RootfsSnapshot, snapshotView } from "./answers.ts";
import {
  type Call,
  envelope,
  route,
  type Sandbox0,
  type Sandbox0Route,
  sandboxOf,
  success,
  timeoutMilliseconds,
} from "./call.ts";
import { detailOf, livesOf, requestedTimes, timeAnnotations, timesOf } from "./sandbox-routes.ts";
import { Fork, NewSnapshot, Restore } from "./schemas.ts";

const ofSandbox = "/api/v1/sandboxes/:id";
const ofSnapshot = "/api/v1/sandbox-rootfs-snapshots/:snapshot";

export const snapshotRoutes: readonly Sandbox0Route[] = [
  route("POST", `${ofSandbox}/snapshots`, {
    summary: "Captures the files of a paused sandbox, or of a running one, which is stopped for a moment.",
    needs: needs.capture,
    body: NewSnapshot,
    answers: { 201: envelope(RootfsSnapshot) },
    handle: async (sandbox0, call) => {
      const { service } = sandbox0;
      const { name: title, description, expires_at: expires } = call.body ?? {};
      const expiresAt = expires ? new Date(expires) : undefined;
      if (expiresAt !== undefined && expiresAt <= service.clock.now())
        throw new RametError("InvalidArgument", "expires_at must be in the future");
      const { caller, request, signal } = call;
      const repeatable = requestIdOf(caller.key, request);
      takeSnapshot(service, caller, repeatable);
      const sandbox = await sandboxOf(sandbox0, call);
      const started = await startCheckpoint(service, sandbox, {
        owner: caller.key,
        requestId: repeatable ?? randomUUID(),
        // A paused one has what its pause has stored.
        ...((sandbox.spec.paused !== true || hasFailedPause(service, sandbox)) && { contents: ["filesystem"] }),
        ...defined({ title, description, expiresAt }),
        signal,
      });
      const wait = { timeoutMilliseconds, signal, isKept: repeatable !== undefined };
      return success(snapshotView(unnamed(await completed(service.objects, started, wait))));
    },
  }),
  route("GET", `${ofSandbox}/snapshots`, {
    summary: "Lists the snapshots of a sandbox, newest first, also after it was deleted.",
    needs: needs.listSnapshots,
    answers: { 200: envelope(z.object({ snapshots: z.array(RootfsSnapshot), count: z.int() })) },
    handle: async (sandbox0, call) => {
      const { id = "" } = call.params;
      const sourceUid = uidOf(id) ?? (await sandboxOf(sandbox0, call)).metadata.uid;
      const found = listSnapshots(sandbox0.service, call.caller.namespace, { sourceUid });
      const snapshots = found.filter(isShown).map(snapshotView);
      if (snapshots.length === 0) await sandboxOf(sandbox0, call);
      return success({ snapshots, count: snapshots.length });
    },
  }),
  route("GET", ofSnapshot, {
    summary: "Describes a snapshot, also a checkpoint or a named snapshot that no client has created.",
    needs: needs.listSnapshots,
    answers: { 200: envelope(RootfsSnapshot) },
    handle: async (sandbox0, { params: { snapshot = "" }, caller: { namespace }, signal }) => {
      const checkpoint = await findCheckpoint(sandbox0.service, { namespace, signal }, snapshot);
      const isSame = (each: Snapshot): boolean => each.checkpoint.metadata.uid === checkpoint.metadata.uid;
      const found = listSnapshots(sandbox0.service, namespace).find(isSame) ?? unnamed(checkpoint);
      return success(snapshotView({ ...found, id: snapshot }));
    },
  }),
  route("DELETE", ofSnapshot, {
    summary: "Deletes a snapshot. Sandboxes that were claimed, restored or forked from it stay.",
    needs: needs.deleteSnapshot,
    answers: { 200: envelope(z.object({ deleted: z.boolean() })) },
    handle: async ({ service }, { params: { snapshot = "" }, caller: { namespace }, signal }) => {
      await findCheckpoint(service, { namespace, signal }, snapshot);
      await deleteSnapshot(service, namespace, snapshot, signal);
      return success({ deleted: true });
    },
  }),
  route("POST", `${ofSandbox}/rootfs/restore`, {
    summary: "Restores a snapshot in a paused sandbox, which stays paused.",
    needs: [...needs.change, ...needs.listSnapshots],
    body: Restore,
    answers: { 200: envelope(Restored) },
    handle: async (sandbox0, call) => {
      const { service } = sandbox0;
      const { caller, signal, body } = call;
      const sandbox = await sandboxOf(sandbox0, call);
      await requirePaused(sandbox0, sandbox, call);
      const { namespace } = caller;
      const { status } = await findCheckpoint(service, { namespace, signal }, body.snapshot_id);
      const to = status?.checkpointId ?? "";
      const requested = await requestRollback(service.objects, sandbox, { to }, signal);
      objectOf(await untilRolledBack(service.objects, requested, { timeoutMilliseconds, signal }));
      const { id, status: now } = detailOf(sandbox0, sandbox, call);
      return success({ sandbox_id: id, snapshot_id: body.snapshot_id, status: now });
    },
  }),
  route("POST", `${ofSandbox}/fork`, {
    summary: "Creates a paused sandbox with the template, the settings and the files of a paused or running one.",
    needs: [...needs.create, ...needs.enter, ...needs.capture],
    body: Fork,
    answers: { 201: envelope(Forked) },
    handle: fork,
  }),
];

async function fork(sandbox0: Sandbox0, call: Call<typeof Fork>) {
  const { service } = sandbox0;
  const { request, caller, signal } = call;
  const { memory = false, config = {} } = call.body ?? {};
  const requestId = requestIdOf(caller.key, request);
  takeSnapshot(service, caller, requestId);
  const source = await sandboxOf(sandbox0, call);
  const times = { ...timesOf(source), ...defined(requestedTimes(config)) };
  const given = {
    owner: caller.key,
    onTimeout: "pauseFiles" as const,
    ...livesOf(sandbox0, times),
    annotations: defined(timeAnnotations(times)),
    contents: memory ? (["memory", "filesystem"] as const) : (["filesystem"] as const),
    timeoutMilliseconds,
    signal,
    isRepeatable: requestId !== undefined,
  };
  const create = ([id = ""]: readonly string[]) =>
    forkPaused(service, source, { ...given, contents: [...given.contents], requestId: id });
  const clone = await withinSandboxLimit(service, caller, create, { requestId });
  return success({ source_sandbox_id: sandboxIdOf(source), sandbox: detailOf(sandbox0, clone, call) });
}

/** @throws RametError `Conflict`; `NotFound` if it has ended */
async function requirePaused({ service }: Sandbox0, sandbox: Sandbox, { signal }: Pick<Call, "signal">): Promise<void> {
  const state = await verifiedState(service, sandbox, signal);
  if (state === "paused" && !hasFailedPause(service, sandbox)) return;
  if (state === "killing" || state === "ended") throw unknown(sandboxIdOf(sandbox));
  throw new RametError(
    "Conflict",
    `The sandbox ${sandboxIdOf(sandbox)} is ${state === "paused" ? "running" : state}, and only a paused one is restored`,
    {
      hint: "Pause it, and wait until its status is paused",
    },
  );
}

/** Not what a request has captured for itself. */
function isShown({ checkpoint }: Snapshot): boolean {
  return checkpoint.spec.ttlAfterFinished === undefined;
}
