import * as z from "zod";
import { type Checkpoint, checkpointPhases, type RametCheckpointStatus } from "../../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { missingPart } from "../../../api/state/sandbox.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { readableBytes } from "../../../base/quantity.ts";
import { describeReport } from "../../../kube/conditions.ts";
import type { Settled } from "../../../operations/objects.ts";
import type { Caller, Callers } from "../../keys/callers.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
import { errorStatus, requestError } from "../../routes/serve-routes.ts";
import type { Sent } from "../../routes/sse.ts";
import { clientCheckpointId, clientCheckpointName } from "../../service/checkpoints.ts";
import { metadataOf } from "../../service/client-metadata.ts";
import type { ClientSecrets } from "../../service/client-secrets.ts";
import { findSandbox, findSandboxByName, sandboxIdOf, stateOf, uidOf } from "../../service/find-sandbox.ts";
import type { Guests } from "../../service/guests.ts";
import { endOf, onTimeoutOf } from "../../service/lifecycle.ts";
import type { ServiceParts } from "../../service/parts.ts";

export type { Call };
export type NativeRoute = Route<Native>;

/** Makes a route of the dialect. */
export const route = routesFor<Native>();

/** The objects that the routes of the dialect share. */
export interface Native {
  service: ServiceParts;
  callers: Callers;
  guests: Guests;
  secrets: ClientSecrets;
  /** The domain below which sandboxes have their host names. @default the client's own setting */
  domain?: string | undefined;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

/** Finds the sandbox of a path by its id or its name. @throws RametError `NotFound`, also for sandboxes of others */
export function sandboxOf(
  { service }: Pick<Native, "service">,
  { params: { sandbox: text = "" }, caller: { namespace }, signal }: Pick<Call, "params" | "caller" | "signal">,
): Promise<Sandbox> {
  const find = uidOf(text) === undefined ? findSandboxByName : findSandbox;
  return find(service, namespace, text, signal);
}

const Time = z.iso.datetime({ offset: true });

export const SandboxView = z
  .object({
    sandbox_id: z.string(),
    name: z.string().describe("The name of the Sandbox object, which paths accept too."),
    namespace: z.string(),
    state: z.enum(["starting", "running", "snapshotting", "pausing", "paused", "ended", "killing"]),
    source: z.string().nullable().describe("The template, the snapshot or the checkpoint from which it was created."),
    metadata: z.record(z.string(), z.string()),
    created_at: Time,
    ends_at: Time.nullable().describe("When its time is over. Null: never, or it is paused."),
    on_timeout: z.enum(["kill", "pause"]).describe("What happens then."),
    message: z.string().nullable().describe("What it waits for, or why it has ended."),
  })
  .meta({ id: "Sandbox" });
export type SandboxView = z.infer<typeof SandboxView>;

/** @param checkpoints those of the sandbox */
export function sandboxView(sandbox: Sandbox, checkpoints: readonly Checkpoint[]): SandboxView {
  const { metadata, spec } = sandbox;
  const end = spec.paused === true ? undefined : endOf(sandbox);
  return {
    sandbox_id: sandboxIdOf(sandbox),
    name: metadata.name,
    namespace: metadata.namespace,
    ...stateView(sandbox, checkpoints),
    source: orNull(metadata.annotations?.[annotations.clientTemplate] ?? sandbox.status?.ramet?.restoredFrom),
    metadata: metadataOf(sandbox),
    created_at: metadata.creationTimestamp,
    ends_at: orNull(end?.toISOString()),
    on_timeout: onTimeoutOf(sandbox) === "kill" ? "kill" : "pause",
  };
}

/** A sandbox is running when it serves its client. */
function stateView(sandbox: Sandbox, checkpoints: readonly Checkpoint[]): Pick<SandboxView, "state" | "message"> {
  const found = stateOf(sandbox, checkpoints);
  const missing = missingPart(sandbox);
  const state = found === "running" && missing !== undefined ? "starting" : found;
  const hasMessage = state === "ended" || state === "starting";
  return { state, message: hasMessage ? orNull(describeReport(sandbox) ?? missing) : null };
}

function orNull<T>(value: T | undefined): T | null {
  return value ?? null;
}

/** A sandbox, and how its creator reaches it. */
export const OpenSandbox = z
  .object({
    sandbox: SandboxView,
    access: z
      .object({
        token: z.string().describe("Opens the API of the sandbox on port 49983: the header X-Access-Token."),
        traffic_token: z.string().describe("Opens ports that are not public: the header e2b-traffic-access-token."),
        domain: z.string().nullable().describe("The domain below which the sandbox has host names."),
      })
      .meta({ id: "Access" }),
  })
  .meta({ id: "OpenSandbox" });
export type OpenSandbox = z.infer<typeof OpenSandbox>;

export async function openSandbox(
  { guests, service, domain }: Native,
  sandbox: Sandbox,
  caller: Caller,
): Promise<OpenSandbox> {
  const { enter, traffic } = await guests.clientTokens(sandbox, caller);
  const current = service.writes.latest(sandbox);
  return {
    sandbox: sandboxView(current, service.known.checkpointsOf(current)),
    access: { token: enter, traffic_token: traffic, domain: domain ?? null },
  };
}

export const CheckpointView = z
  .object({
    checkpoint_id: z.string(),
    id: z.string().describe("The same as checkpoint_id."),
    name: z.string().nullable(),
    ok: z.boolean().describe("False if the capture has failed."),
    state: z.enum(["waiting", "capturing", "succeeded", "failed", "deleting"]),
    created_at: Time,
    size_bytes: z.int().nullable().describe("Null until it has succeeded, as the next ones."),
    size_human: z.string().nullable().describe("The same, such as 128MiB."),
    copy_duration_ms: z.number().nullable().describe("From the capture time until its data is stored."),
    paused_ms: z.number().nullable().describe("How long the sandbox was paused."),
    contents: z.array(z.string()).nullable(),
    message: z.string().nullable().describe("What it waits for, or why it has failed."),
  })
  .meta({ id: "Checkpoint" });
export type CheckpointView = z.infer<typeof CheckpointView>;

export function checkpointView(checkpoint: Checkpoint): CheckpointView {
  const { metadata, status } = checkpoint;
  const id = clientCheckpointId(checkpoint);
  const [pending] = checkpointPhases;
  const state = states[status?.phase ?? pending] ?? "waiting";
  const isDone = state === "succeeded";
  return {
    checkpoint_id: id,
    id,
    name: orNull(clientCheckpointName(checkpoint)),
    ok: state !== "failed",
    state,
    created_at: metadata.creationTimestamp,
    ...measuredIn((isDone ? status?.ramet : undefined) ?? {}),
    message: isDone ? null : orNull(describeReport(checkpoint)),
  };
}

/** @param result of a checkpoint that has succeeded */
function measuredIn({ sizeBytes, cutAt, readyAt, pausedMilliseconds, contents }: RametCheckpointStatus) {
  const [from, to] = [cutAt, readyAt].map((time) => Date.parse(time ?? ""));
  const copied = (to ?? NaN) - (from ?? NaN);
  return {
    size_bytes: orNull(sizeBytes),
    size_human: sizeBytes === undefined ? null : readableBytes(sizeBytes),
    copy_duration_ms: Number.isNaN(copied) ? null : Math.max(0, copied),
    paused_ms: orNull(pausedMilliseconds),
    contents: orNull(contents),
  };
}

const states: Readonly<Record<string, CheckpointView["state"]>> = {
  Pending: "waiting",
  Creating: "capturing",
  Succeeded: "succeeded",
  Failed: "failed",
  Terminating: "deleting",
};

export const ErrorBody = z
  .object({
    code: z.string().describe("One of the codes of Ramet, which are stable."),
    message: z.string(),
    hint: z.string().optional().describe("What to do."),
    retryable: z.boolean().describe("Whether the same request may succeed later although nobody changes anything."),
  })
  .meta({ id: "Error" });

export function errorAnswer(thrown: unknown): { status: number; body: z.infer<typeof ErrorBody> } {
  const error = requestError(thrown, "The request is not valid");
  const { code, message, hint, retryable } = error;
  return { status: errorStatus(thrown, error), body: { code, message, retryable, ...defined({ hint }) } };
}

/** The time of a wait, after which a client asks again: shorter than load balancers keep a request. */
export const WaitQuery = z.object({
  timeout_ms: z.coerce.number().int().min(0).max(50_000).default(25_000).describe("After this time the events end."),
});

export const Events = z
  .string()
  .describe("Server-sent events: progress with each new state; then result or error. Without these, ask again.");

/** Runs a wait, and yields the states that it reports, as far as they differ; then its result or its failure. */
export async function* waitEvents(
  run: (report: (state: object) => void) => Promise<Settled<object>>,
): AsyncGenerator<Sent, void, undefined> {
  // Undefined: the end.
  const queue: (Sent | undefined)[] = [];
  let last = "";
  let more = Promise.withResolvers<undefined>();
  const push = (sent?: Sent): void => {
    queue.push(sent);
    more.resolve(undefined);
  };
  const report = (state: object): void => {
    const text = JSON.stringify(state);
    if (text !== last) push({ event: "progress", data: state });
    last = text;
  };
  void run(report)
    .then(resultEvent, lostEvent)
    .then((sent) => {
      if (sent !== undefined) push(sent);
      push();
    });
  for (;;) {
    for (const sent of queue.splice(0)) {
      if (sent === undefined) return;
      yield sent;
    }
    await more.promise;
    more = Promise.withResolvers<undefined>();
  }
}

function resultEvent(settled: Settled<object>): Sent {
  if ("object" in settled) return { event: "result", data: settled.object };
  return { event: "error", data: errorAnswer(settled.failure).body };
}

/** None when its time is over: the client asks again, as after a lost connection. */
function lostEvent(error: unknown): Sent | undefined {
  const { code } = RametError.from(error);
  return code === "Timeout" || code === "Canceled" ? undefined : { event: "error", data: errorAnswer(error).body };
}
