import * as z from "zod";
import type { Checkpoint } from "../../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../../api/names/labels.ts";
import { keyedUuidOf } from "../../../api/schema/digest.ts";
import type { Condition } from "../../../api/schema/metadata.ts";
import { failedPause, isStarting } from "../../../api/state/sandbox.ts";
import { needs } from "../../keys/needs.ts";
import { isForClients } from "../../service/checkpoints.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import { claimedAt } from "./answers.ts";
import { type Call, envelope, route, type Sandbox0, type Sandbox0Route, sandboxOf, success } from "./call.ts";
import { ReadEvents } from "./schemas.ts";
import { Observation, observation, pageOf, sendWatch, timeOf } from "./watch.ts";

const Event = z
  .object({
    event_id: z.uuid(),
    schema_version: z.literal(2),
    ...Observation.shape,
    source: z.literal("manager"),
    event_type: z.literal("lifecycle"),
    phase: z.enum(["attempt", "result"]),
    outcome: z.enum(["accepted", "succeeded", "failed"]),
    actor: z.object({ kind: z.enum(["api_key", "service"]), id: z.string() }),
    action: z.string(),
    resource: z.object({ type: z.string(), id: z.string() }),
    operation_id: z.string(),
    producer: z.object({ service: z.literal("ramet") }),
    integrity: z
      .object({
        algorithm: z.literal("ed25519-sha256-v1"),
        payload_hash: z.string(),
        signature: z.string(),
        signing_key_id: z.string(),
        signature_status: z.literal("unavailable"),
      })
      .describe("Events are computed from the objects, and not signed."),
    attributes: z.object({ reason: z.string().optional(), message: z.string().optional() }),
  })
  .meta({ id: "SandboxObservabilityEvent" });
type Event = z.infer<typeof Event>;

export const eventRoutes: readonly Sandbox0Route[] = [
  route("GET", "/api/v1/sandboxes/:id/observability/events", {
    summary:
      "Returns the creation of a sandbox, its captures that still exist, and its last pause, or its last start and resume, oldest first, or follows them. A watch can miss what lasts less than a second.",
    needs: [...needs.read, ...needs.listSnapshots],
    query: ReadEvents,
    answers: { 200: envelope(z.object({ events: z.array(Event), next_cursor: z.string().optional() })) },
    handle: listEvents,
  }),
];

async function listEvents(sandbox0: Sandbox0, call: Call<z.ZodUnknown, typeof ReadEvents>) {
  const { watch, limit, start_time: start, cursor } = call.query;
  const found = await sandboxOf(sandbox0, call);
  const asked = (): Event[] => eventsOf(sandbox0.service, found).filter((event) => matches(event, call.query));
  if (watch === true) {
    const poll = newEvents(asked, (cursor ?? start) === undefined ? asked() : []);
    return sendWatch(sandbox0, call, { sandbox: found, type: "event", poll });
  }
  const { page, next } = pageOf(asked(), limit);
  return success({ events: page, ...next });
}

/** Returns the events that have appeared since the last call, also late ones. @param before what the first call leaves out */
export function newEvents(read: () => Event[], before: readonly Event[]): () => Promise<Event[]> {
  let known: ReadonlySet<string> = new Set(before.map(({ event_id: id }) => id));
  return () => {
    const all = read();
    const fresh = all.filter(({ event_id: id }) => !known.has(id));
    known = new Set(all.map(({ event_id: id }) => id));
    return Promise.resolve(fresh);
  };
}

export function matches(event: Event, query: Partial<z.infer<typeof ReadEvents>>): boolean {
  const { watch, cursor, start_time: start, end_time: end } = query;
  const time = timeOf(event);
  // Some times are whole seconds, so an event can appear after others of its second. Clients know those by their ids.
  const isInSecond = (of: number): boolean => watch === true && Math.floor(time / 1_000) === Math.floor(of / 1_000);
  if (cursor !== undefined && time <= cursor && !isInSecond(cursor)) return false;
  if (start !== undefined && time < Date.parse(start) && !isInSecond(Date.parse(start))) return false;
  if (end !== undefined && time > Date.parse(end)) return false;
  const fields: readonly [unknown, unknown][] = [
    [query.source, event.source],
    [query.event_type, event.event_type],
    [query.outcome, event.outcome],
    [query.actor_kind, event.actor.kind],
    [query.actor_id, event.actor.id],
    [query.action, event.action],
    [query.resource_type, event.resource.type],
    [query.operation_id, event.operation_id],
    [query.event_id, event.event_id],
  ];
  return fields.every(([asked, value]) => asked === undefined || asked === value);
}

/** What the objects record of a sandbox, oldest first. */
export function eventsOf({ known, sandboxes }: EventParts, found: Sandbox): Event[] {
  const sandbox = sandboxes.current(found.metadata.uid) ?? found;
  const { deletionTimestamp: deletedAt, annotations: noted = {} } = sandbox.metadata;
  const key = noted[annotations.owner];
  const happened: Happening[] = [
    { action: "sandbox.create", at: claimedAt(sandbox), outcome: "succeeded", key },
    ...(sandbox.status?.conditions ?? []).flatMap((condition) => transitionOf(sandbox, condition)),
    ...known.checkpointsOf(sandbox).filter(isOf(sandbox)).flatMap(captureOf),
    ...(deletedAt === undefined ? [] : [{ action: "sandbox.delete", at: deletedAt, outcome: "accepted" as const }]),
  ];
  return happened.map((each) => eventOf(sandbox, each)).sort((a, b) => timeOf(a) - timeOf(b));
}

interface EventParts {
  known: Pick<Sandbox0["service"]["known"], "checkpointsOf">;
  sandboxes: Pick<Sandbox0["service"]["sandboxes"], "current">;
}

interface Happening {
  action: string;
  /** RFC 3339. */
  at: string;
  /** `accepted`: it has begun. */
  outcome: Event["outcome"];
  /** The API key that has requested it, as far as that is known. */
  key?: string | undefined;
  /** @default the sandbox */
  checkpoint?: Checkpoint;
  attributes?: Event["attributes"];
}

/** The actions of Sandbox0 that conditions of a Sandbox report. */
const actions: Readonly<Record<string, string>> = {
  Ready: "sandbox.start",
  SandboxPaused: "sandbox.pause",
  SandboxResumed: "sandbox.resume",
};

function transitionOf(sandbox: Sandbox, { type, status, reason, message, lastTransitionTime }: Condition) {
  const action = actions[type];
  // Later it is not ready because of a pause, a probe or its end.
  if (action === undefined || (type === "Ready" && status !== "True" && !isStarting(sandbox))) return [];
  // A sandbox of a set has started before its claim.
  const claimed = claimedAt(sandbox);
  const at = Date.parse(lastTransitionTime) < Date.parse(claimed) ? claimed : lastTransitionTime;
  const hasFailed = type === "SandboxPaused" ? failedPause(sandbox) !== undefined : sandbox.status?.phase === "Failed";
  const outcome = status === "True" ? "succeeded" : hasFailed ? "failed" : "accepted";
  return [{ action, at, outcome, attributes: { reason, message } } as const];
}

/** Whether a checkpoint is a capture of this sandbox for a client: another one had the same name before. */
function isOf({ metadata: { uid, creationTimestamp: created } }: Sandbox): (checkpoint: Checkpoint) => boolean {
  return (checkpoint) => {
    const { labels: own = {}, creationTimestamp: at } = checkpoint.metadata;
    const isLater = (own[labels.sourceUid] ?? uid) === uid && Date.parse(at) >= Date.parse(created);
    return isLater && isForClients(checkpoint);
  };
}

function captureOf(checkpoint: Checkpoint): Happening[] {
  const { metadata, status } = checkpoint;
  const begun: Happening = {
    action: "sandbox.rootfs_snapshot.create",
    at: metadata.creationTimestamp,
    outcome: "accepted",
    key: metadata.annotations?.[annotations.owner],
    checkpoint,
  };
  const { phase, completionTime: at, message } = status ?? {};
  if (at === undefined) return [begun];
  // Only a failed capture has a message, which it keeps while it is removed.
  const hasFailed = phase === "Failed" || (phase === "Terminating" && message !== undefined);
  const ended = hasFailed ? ({ outcome: "failed", attributes: { message } } as const) : undefined;
  return [begun, { ...begun, at, outcome: "succeeded", ...ended }];
}

function eventOf(sandbox: Sandbox, { action, at, outcome, key, checkpoint, attributes = {} }: Happening): Event {
  const { namespace, uid } = sandbox.metadata;
  const subject = checkpoint?.metadata.uid ?? uid;
  const id = keyedUuidOf(subject, JSON.stringify([action, at, outcome]));
  return {
    event_id: id,
    schema_version: 2,
    ...observation(namespace, sandboxIdOf(sandbox), new Date(at)),
    source: "manager",
    event_type: "lifecycle",
    phase: outcome === "accepted" ? "attempt" : "result",
    outcome,
    actor: key === undefined ? { kind: "service", id: "ramet" } : { kind: "api_key", id: key },
    action,
    resource:
      checkpoint === undefined
        ? { type: "sandbox", id: sandboxIdOf(sandbox) }
        : { type: "sandbox_rootfs_snapshot", id: checkpoint.status?.checkpointId ?? checkpoint.metadata.name },
    operation_id: checkpoint?.metadata.uid ?? id,
    producer: { service: "ramet" },
    integrity: {
      algorithm: "ed25519-sha256-v1",
      payload_hash: "",
      signature: "",
      signing_key_id: "",
      signature_status: "unavailable",
    },
    attributes,
  };
}
