import { randomUUID } from "node:crypto";
import * as z from "zod";
import type { Checkpoint } from "../../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { consistencies } from "../../../api/kinds/volume-import.ts";
import type { Programs } from "../../../api/schema/metadata.ts";
import { snapshotState } from "../../../api/state/named-snapshot.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { sendEvents } from "../../routes/sse.ts";
import {
  awaitCheckpoint,
  checkpointsOf,
  checkRestorable,
  clientCheckpointId,
  deleteCheckpoint,
  findCheckpoint,
  restoreInPlace,
  startCheckpoint,
} from "../../service/checkpoints.ts";
import { uidOf } from "../../service/find-sandbox.ts";
import { takeSnapshot } from "../../service/key-limits.ts";
import { compareVersions, namedSnapshot, namedSnapshots } from "../../service/snapshot-versions.ts";
import {
  type Call,
  checkpointView,
  CheckpointView,
  Events,
  type Native,
  type NativeRoute,
  route,
  sandboxOf,
  SandboxView,
  waitEvents,
  WaitQuery,
} from "./call.ts";
import { viewOf } from "./sandbox-routes.ts";

/** Shorter than load balancers keep a request. */
const timeoutMilliseconds = 55_000;

const VolumeName = z.string().min(1).max(63);

const NewCheckpoint = z
  .strictObject({
    name: z
      .string()
      .min(1)
      .max(100)
      .regex(/^[^\p{Cc}]+$/u, "contains a control character")
      .optional()
      .describe("Unique among the checkpoints of the sandbox."),
    contents: z
      .array(z.enum(["memory", "filesystem"]))
      .min(1)
      .max(2)
      .refine((given) => given.includes("filesystem"), { error: "must include filesystem" })
      .optional()
      .describe("Default: what the sandbox keeps, else both."),
    volumes: z
      .union([z.boolean(), z.array(VolumeName).min(1).max(100)])
      .optional()
      .describe("The names of volumes, or true for all. Default: those that the sandbox keeps."),
    consistency: z.enum(consistencies).optional().describe("Of the volumes. Default: crash."),
  })
  .prefault({})
  .meta({ id: "NewCheckpoint" });

const ProgramsView = z
  .object({ processes: z.int(), names: z.array(z.string()).describe("Of the programs, at most 20.") })
  .nullable()
  .describe("Null: not known.");

const Restored = z
  .object({
    ok: z.literal(true),
    checkpoint_id: z.string(),
    restore_duration_ms: z.number(),
    stopped: ProgramsView.describe("The processes that the restore has ended. Null: not known."),
    started: ProgramsView.describe("Those that ran after it. Null: not known."),
    sandbox: SandboxView,
  })
  .meta({ id: "Restored" });

const NamedSnapshotView = z
  .object({
    name: z.string(),
    version: z.int().nullable().describe("The current one."),
    state: z.string(),
    versions: z.array(
      z.object({
        version: z.int(),
        reference: z.string(),
        digest: z.string(),
        checkpoint_id: z.string(),
        created_at: z.iso.datetime({ offset: true }),
        size_bytes: z.int().nullable(),
        parent: z.string().nullable(),
        is_current: z.boolean(),
      }),
    ),
  })
  .meta({ id: "NamedSnapshot" });

const Reference = z.string().min(1).max(300);
const StepView = z.object({ step: z.int(), text: z.string() }).optional();
const DiffView = z.object({
  from: z.string(),
  to: z.string(),
  changes: z.array(z.object({ field: z.string(), from: z.unknown(), to: z.unknown() })),
  recipe: z.array(z.object({ from: StepView, to: StepView })).nullable(),
});

const ofSandbox = "/sandboxes/:sandbox/checkpoints";
const ofCheckpoint = `${ofSandbox}/:checkpoint`;

export const checkpointRoutes: readonly NativeRoute[] = [
  route("POST", ofSandbox, {
    summary: "Requests a checkpoint, and does not wait for it. Can be repeated with an Idempotency-Key.",
    needs: needs.capture,
    body: NewCheckpoint,
    answers: { 201: CheckpointView },
    handle: async (native, call) => {
      const { caller, request, body, signal } = call;
      const requestId = requestIdOf(caller.key, request) ?? randomUUID();
      takeSnapshot(native.service, caller, requestId);
      const sandbox = await sandboxOf(native, call);
      return checkpointView(
        await startCheckpoint(native.service, sandbox, { ...body, owner: caller.key, requestId, signal }),
      );
    },
  }),
  route("GET", ofSandbox, {
    summary: "Lists the checkpoints of a sandbox, newest first.",
    needs: needs.listSnapshots,
    answers: { 200: z.object({ checkpoints: z.array(CheckpointView) }) },
    handle: async (native, call) => ({
      checkpoints: checkpointsOf(native.service, await sandboxOf(native, call)).map(checkpointView),
    }),
  }),
  route("GET", ofCheckpoint, {
    summary: "Describes a checkpoint, by its id or its name.",
    needs: needs.listSnapshots,
    answers: { 200: CheckpointView },
    handle: async (native, call) => checkpointView(await checkpointOf(native, call)),
  }),
  route("GET", `${ofCheckpoint}/wait`, {
    summary: "Follows a checkpoint until it has succeeded or failed.",
    needs: needs.listSnapshots,
    query: WaitQuery,
    answerType: "text/event-stream",
    answers: { 200: Events },
    handle: async (native, call) => {
      const { service } = native;
      const checkpoint = await checkpointOf(native, call);
      const waiting = { timeoutMilliseconds: call.query.timeout_ms, signal: call.signal };
      const events = waitEvents(async (report) => {
        const settled = await awaitCheckpoint(service, checkpoint, {
          ...waiting,
          report: (each) => {
            report(checkpointView(each));
          },
        });
        return "failure" in settled ? settled : { object: checkpointView(settled.object) };
      });
      return sendEvents(call.reply, events, service.clock);
    },
  }),
  route("DELETE", ofCheckpoint, {
    summary: "Deletes a checkpoint. Sandboxes that were created from it stay.",
    needs: needs.deleteCheckpoint,
    answers: { 204: null },
    handle: async (native, call) =>
      deleteCheckpoint(native.service, await checkpointOf(native, call), call.signal),
  }),
  route("POST", `${ofCheckpoint}/restore`, {
    summary: "Restores a checkpoint in the sandbox, in place. Can be repeated with an Idempotency-Key.",
    needs: needs.change,
    answers: { 200: Restored },
    handle: async (native, call) => {
      const { service } = native;
      const { caller, request, signal } = call;
      const sandbox = await sandboxOf(native, call);
      const checkpoint = await checkpointOf(native, call, { others: true });
      checkRestorable(checkpoint);
      const id = clientCheckpointId(checkpoint);
      const began = service.clock.monotonicMilliseconds();
      const requestId = requestIdOf(caller.key, request);
      const restored = await restoreInPlace(service, sandbox, id, { requestId, timeoutMilliseconds, signal });
      const { ended, running } = restored.status?.ramet?.rollback?.programs ?? {};
      return {
        ok: true,
        checkpoint_id: id,
        restore_duration_ms: Math.round(service.clock.monotonicMilliseconds() - began),
        stopped: programsView(ended),
        started: programsView(running),
        sandbox: viewOf(native, restored),
      };
    },
  }),
  route("GET", "/snapshots", {
    summary: "Lists the named snapshots of the namespace.",
    needs: needs.listTemplates,
    answers: { 200: z.object({ snapshots: z.array(NamedSnapshotView) }) },
    handle: ({ service }, { caller }) => ({
      snapshots: namedSnapshots(service, caller.namespace).map(snapshotView),
    }),
  }),
  route("GET", "/snapshots/:name", {
    summary: "Describes a named snapshot with its versions.",
    needs: needs.readTemplate,
    answers: { 200: NamedSnapshotView },
    handle: async ({ service }, { caller, params: { name = "" }, signal }) =>
      snapshotView(await namedSnapshot(service, caller.namespace, name, signal)),
  }),
  route("GET", "/diff", {
    summary: "Compares two versions of named snapshots.",
    needs: needs.readTemplate,
    query: z.object({ from: Reference, to: Reference }),
    answers: { 200: DiffView },
    handle: ({ service }, { caller, query, signal }) => compareVersions(service, caller.namespace, query, signal),
  }),
];

/**
 * A checkpoint of the sandbox in the path, also after the sandbox was deleted.
 * @param others whether those of other sandboxes are found, too
 * @throws RametError `NotFound`
 */
async function checkpointOf(
  native: Native,
  call: Pick<Call, "params" | "caller" | "signal">,
  { others = false } = {},
): Promise<Checkpoint> {
  const { namespace } = call.caller;
  const { sandbox: text = "", checkpoint = "" } = call.params;
  const uid = uidOf(text);
  const sandbox = await sandboxOf(native, call).catch((error: unknown) => {
    if (uid === undefined || RametError.from(error).code !== "NotFound") throw error;
    return { metadata: { namespace, uid } };
  });
  return findCheckpoint(native.service, { namespace, sandbox, others }, checkpoint);
}

function programsView(programs: Programs | undefined): z.infer<typeof ProgramsView> {
  return programs === undefined ? null : { processes: programs.processes, names: programs.names };
}

function snapshotView(snapshot: NamedSnapshot): z.infer<typeof NamedSnapshotView> {
  const { metadata, status } = snapshot;
  const versions = (status?.versions ?? []).map((each) => ({
    version: each.version,
    reference: `${metadata.name}@${each.version}`,
    digest: each.digest,
    checkpoint_id: each.checkpointId,
    created_at: each.createdAt,
    size_bytes: each.sizeBytes ?? null,
    parent: each.parent ?? null,
    is_current: each.version === status?.version,
  }));
  return { name: metadata.name, version: status?.version ?? null, state: snapshotState(snapshot).is, versions };
}
