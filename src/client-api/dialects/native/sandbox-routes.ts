import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import { awaitSandbox } from "../../../operations/await-sandbox.ts";
import { observed } from "../../../operations/objects.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { sendEvents } from "../../routes/sse.ts";
import { untilKnown } from "../../service/cache-lag.ts";
import { checkRestorable, clientCheckpointId, findCheckpoint } from "../../service/checkpoints.ts";
import { metadataAnnotation } from "../../service/client-metadata.ts";
import { forkSandbox } from "../../service/clone-sandbox.ts";
import { makeSandbox } from "../../service/create-sandbox.ts";
import { isForClients } from "../../service/find-sandbox.ts";
import { takeSnapshot, withinSandboxLimit } from "../../service/key-limits.ts";
import {
  connectSandbox,
  ensurePaused,
  killSandbox,
  servingStates,
  setLife,
  verifiedState,
} from "../../service/lifecycle.ts";
import { currentSource, type Source } from "../../service/source.ts";
import {
  type Call,
  ErrorBody,
  errorAnswer,
  Events,
  type Native,
  type NativeRoute,
  OpenSandbox,
  openSandbox,
  route,
  sandboxOf,
  SandboxView,
  sandboxView,
  waitEvents,
  WaitQuery,
} from "./call.ts";

/** Shorter than load balancers keep a request. */
const timeoutMilliseconds = 55_000;
const defaultLifeMilliseconds = 300_000;
const longestTimeMilliseconds = 10 * 365 * 86_400_000;
const mostForks = 100;

const Milliseconds = z.int().min(1).max(longestTimeMilliseconds);
const Reference = z.string().min(1).max(300);
const Name = z.string().min(1).max(128);

const NewSandbox = z
  .strictObject({
    template: Reference.optional().describe("A SandboxTemplate, a SandboxSet or an alias. Default: base."),
    snapshot: Reference.optional().describe("A named snapshot: `name`, or a version of it: `name@7`."),
    checkpoint: Reference.optional().describe("The id of a checkpoint that has succeeded."),
    timeout_ms: Milliseconds.default(defaultLifeMilliseconds).describe("How long it lives from now on."),
    on_timeout: z.enum(["kill", "pause"]).default("kill").describe("What happens then."),
    metadata: z.record(Name, z.string().max(32_768)).default({}),
    envs: z.record(Name, z.string().max(131_072)).default({}).describe("Variables of every command that starts in it."),
  })
  .refine((given) => [given.template, given.snapshot, given.checkpoint].filter(Boolean).length <= 1, {
    error: "template, snapshot and checkpoint exclude each other",
  })
  .meta({ id: "NewSandbox" });
type NewSandbox = z.output<typeof NewSandbox>;

const Life = z.strictObject({ timeout_ms: Milliseconds });
const Connect = z.strictObject({ timeout_ms: Milliseconds.default(defaultLifeMilliseconds) }).prefault({});
const Pause = z.strictObject({ memory: z.boolean().default(true).describe("Whether it is kept.") }).prefault({});
const Fork = z
  .strictObject({
    count: z.int().min(1).max(mostForks).default(1),
    timeout_ms: Milliseconds.default(defaultLifeMilliseconds),
    on_timeout: z.enum(["kill", "pause"]).default("kill"),
  })
  .prefault({});
const Forks = z.object({
  forks: z.array(z.union([OpenSandbox, z.object({ error: ErrorBody })])).describe("Each one, or why it failed."),
});

const ofSandbox = "/sandboxes/:sandbox";
const openNeeds = [...needs.create, ...needs.enter];

export const sandboxRoutes: readonly NativeRoute[] = [
  route("POST", "/sandboxes", {
    summary: "Creates a sandbox, and does not wait until it runs. Can be repeated with an Idempotency-Key.",
    needs: openNeeds,
    body: NewSandbox,
    answers: { 201: OpenSandbox },
    handle: async (native, { request, caller, signal, body }) => {
      const { service } = native;
      const { source, name } = await sourceOf(native, caller.namespace, body, signal);
      const given = {
        namespace: caller.namespace,
        owner: caller.key,
        source: name,
        onTimeout: body.on_timeout,
        lifeMilliseconds: lifeOf(native, body.timeout_ms),
        annotations: metadataAnnotation(body.metadata),
        environment: body.envs,
        seal: await native.secrets.requestSeal(),
        timeoutMilliseconds,
        signal,
      };
      const sandbox = await withinSandboxLimit(
        service,
        caller,
        ([requestId = ""]) => makeSandbox(service, { ...given, requestId }, source),
        { requestId: requestIdOf(caller.key, request) },
      );
      return openSandbox(native, await untilKnown(service.sandboxes, sandbox, signal), caller);
    },
  }),
  route("GET", "/sandboxes", {
    summary: "Lists the sandboxes of the namespace, newest first.",
    needs: needs.list,
    answers: { 200: z.object({ sandboxes: z.array(SandboxView) }) },
    handle: ({ service }, { caller }) => ({
      sandboxes: service.known
        .sandboxesIn(caller.namespace)
        .map((sandbox) => service.writes.latest(sandbox))
        .filter(isForClients)
        .map((sandbox) => sandboxView(sandbox, service.known.checkpointsOf(sandbox)))
        .toSorted((a, b) => b.created_at.localeCompare(a.created_at) || a.name.localeCompare(b.name)),
    }),
  }),
  route("GET", ofSandbox, {
    summary: "Describes a sandbox.",
    needs: needs.read,
    answers: { 200: SandboxView },
    handle: async (native, call) => viewOf(native, await sandboxOf(native, call)),
  }),
  route("DELETE", ofSandbox, {
    summary: "Deletes a sandbox. Its checkpoints stay.",
    needs: needs.kill,
    answers: { 204: null },
    handle: async (native, call) => killSandbox(native.service, await sandboxOf(native, call), call.signal),
  }),
  route("GET", `${ofSandbox}/wait`, {
    summary: "Follows a sandbox until it runs.",
    needs: needs.read,
    query: WaitQuery,
    answerType: "text/event-stream",
    answers: { 200: Events },
    handle: async (native, call) => {
      const { service } = native;
      const sandbox = await sandboxOf(native, call);
      const waiting = { timeoutMilliseconds: call.query.timeout_ms, signal: call.signal, isNew: true };
      const events = waitEvents(async (report) => {
        const follow = observed(service.objects.sandboxes, (each) => {
          report(sandboxView(each, service.known.checkpointsOf(each)));
        });
        const settled = await awaitSandbox({ sandboxes: follow }, sandbox, waiting);
        return "failure" in settled ? settled : { object: viewOf(native, settled.object) };
      });
      return sendEvents(call.reply, events, service.clock);
    },
  }),
  route("POST", `${ofSandbox}/connect`, {
    summary: "Resumes a paused sandbox, or extends the time of a running one.",
    needs: [...needs.change, ...needs.enter],
    body: Connect,
    answers: { 200: OpenSandbox },
    handle: async (native, call) => {
      const life = { lifeMilliseconds: lifeOf(native, call.body.timeout_ms), timeoutMilliseconds, signal: call.signal };
      const { sandbox } = await connectSandbox(native.service, await sandboxOf(native, call), life);
      return openSandbox(native, sandbox, call.caller);
    },
  }),
  route("POST", `${ofSandbox}/pause`, {
    summary: "Pauses a sandbox, and waits until its state is stored. A paused one stays as it is.",
    needs: needs.change,
    body: Pause,
    answers: { 200: SandboxView },
    handle: async (native, call) => {
      const { service } = native;
      const sandbox = await sandboxOf(native, call);
      const pause = { keepMemory: call.body.memory, timeoutMilliseconds, signal: call.signal };
      await ensurePaused(service, sandbox, pause);
      return viewOf(native, sandbox);
    },
  }),
  route("POST", `${ofSandbox}/timeout`, {
    summary: "Sets the remaining time of a running sandbox.",
    needs: needs.change,
    body: Life,
    answers: { 204: null },
    handle: async (native, call) => {
      const lifeMilliseconds = lifeOf(native, call.body.timeout_ms);
      const life = { lifeMilliseconds, extendOnly: false, signal: call.signal };
      await setLife(native.service, await sandboxOf(native, call), life);
    },
  }),
  route("POST", `${ofSandbox}/fork`, {
    summary: "Captures a running sandbox once with its memory, creates clones of it, and waits until they run.",
    needs: [...openNeeds, ...needs.capture],
    body: Fork,
    answers: { 201: Forks },
    handle: async (native, call) => {
      const { service } = native;
      const { caller, signal, body } = call;
      const lifeMilliseconds = lifeOf(native, body.timeout_ms);
      takeSnapshot(service, caller);
      const source = await sandboxOf(native, call);
      const state = await verifiedState(service, source, signal, ["starting", ...servingStates]);
      if (state !== "starting" && !servingStates.includes(state))
        throw new RametError("Conflict", `The sandbox ${source.metadata.name} is ${state}, so it cannot be forked`);
      const given = {
        owner: caller.key,
        seal: await native.secrets.requestSeal(),
        onTimeout: body.on_timeout,
        lifeMilliseconds,
        timeoutMilliseconds,
        signal,
      };
      const fork = (requestIds: readonly string[]) => forkSandbox(service, source, { ...given, requestIds });
      const results = await withinSandboxLimit(service, caller, fork, { count: body.count });
      const forks = results.map(async (result) =>
        "failure" in result ? { error: errorAnswer(result.failure).body } : openSandbox(native, result.object, caller),
      );
      return { forks: await Promise.all(forks) };
    },
  }),
];

/** The newest known state of a sandbox. */
export function viewOf({ service }: Pick<Native, "service">, sandbox: Sandbox): SandboxView {
  const current = service.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  return sandboxView(current, service.known.checkpointsOf(current));
}

/** What a new sandbox is made of. @returns its name, as the client wrote it @throws RametError `InvalidArgument` for another kind */
async function sourceOf(
  { service }: Native,
  namespace: string,
  { template = "base", snapshot, checkpoint: id }: NewSandbox,
  signal: Call["signal"],
): Promise<{ source: Source; name: string }> {
  if (id !== undefined) {
    const checkpoint = await findCheckpoint(service, { namespace }, id);
    checkRestorable(checkpoint);
    return { source: { kind: "checkpoint", reference: clientCheckpointId(checkpoint), checkpoint }, name: id };
  }
  const name = snapshot ?? template;
  const aliases = snapshot === undefined ? service.aliases : new Map<string, string>();
  const source = await currentSource({ ...service, aliases }, namespace, name, signal);
  const field = fieldOf(service, namespace, source);
  const given = snapshot === undefined ? "template" : "snapshot";
  if (field === given) return { source, name };
  const message = `${given} is ${JSON.stringify(name)}, which is no ${given}`;
  throw new RametError("InvalidArgument", message, { hint: `Write ${field}: ${JSON.stringify(name)}` });
}

function fieldOf({ known }: Native["service"], namespace: string, source: Source): "template" | "snapshot" | "checkpoint" {
  if (source.kind !== "checkpoint") return "template";
  const [name = ""] = source.reference.split("@");
  return known.snapshot(`${namespace}/${name}`) === undefined ? "checkpoint" : "snapshot";
}

/** @throws RametError `InvalidArgument` */
function lifeOf({ maxLifeSeconds }: Native, milliseconds: number): number {
  if (milliseconds <= maxLifeSeconds * 1000) return milliseconds;
  throw new RametError(
    "InvalidArgument",
    `timeout_ms is ${milliseconds}, and must be at most ${maxLifeSeconds * 1000}`,
    { hint: "Extend the time of the sandbox while it runs" },
  );
}
