import { randomUUID } from "node:crypto";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { parseDuration } from "../../../base/duration.ts";
import { RametError } from "../../../base/errors.ts";
import type { Caller } from "../../keys/callers.ts";
import { requestIdOf } from "../../routes/common-routes.ts";
import { type CloneSandbox, startClone, type StartedClone } from "../../service/clone-sandbox.ts";
import { checkSnapshotLimit, withinSandboxLimit } from "../../service/key-limits.ts";
import { currentState, pauseSandbox, requestResume, servingStates, verifiedState } from "../../service/lifecycle.ts";
import { createNamed, isOfRequest } from "../../service/named-sandbox.ts";
import { isForClients, stateOf } from "../../service/sandbox-state.ts";
import { currentSource } from "../../service/source.ts";
import type { Storage } from "../../service/storage.ts";
import type { AgentTier, Call } from "./call.ts";
import { sandboxSummary } from "./sandbox-view.ts";
import type { Clone, ListSandboxes, NewSandbox } from "./schemas.ts";

/** Clients wait 30 seconds by default. */
const timeoutMilliseconds = 25_000;

/** The namespace that the client sends if its user names none. */
const defaultNamespace = "default";

export async function create(agentTier: AgentTier, { request, reply, caller, signal, body }: Call<NewSandbox>) {
  const { service } = agentTier;
  const { name, templateRef, timeout } = body;
  checkSupported(body, caller);
  const source = await currentSource(service, caller.namespace, templateRef.name, signal);
  const requestId = requestIdOf(caller.key, request.headers["idempotency-key"]) ?? randomUUID();
  const given = {
    namespace: caller.namespace,
    name,
    owner: caller.key,
    requestId,
    // Nothing in a sandbox is lost when its time is over.
    onTimeout: "pause" as const,
    lifeMilliseconds: lifeOf(agentTier, timeout),
    annotations: defined({ [annotations.clientTemplate]: templateRef.name, [annotations.clientLife]: timeout }),
    storage: storageOf(body.storage),
    signal,
  };
  const make = () => createNamed(service, given, source);
  const { metadata } = await withinSandboxLimit(service, caller, make, { requestId });
  const { namespace } = metadata;
  const created = { sandboxId: name, name, namespace, status: "Creating", templateRef: templateRef.name };
  return reply.code(201).send(created);
}

/** @throws RametError `NotSupported` or `InvalidArgument`, naming the field */
function checkSupported({ namespace, templateRef, idleTimeout, storage }: NewSandbox, caller: Caller): void {
  for (const given of [namespace, templateRef.namespace]) {
    if (given === undefined || given === "" || given === defaultNamespace || given === caller.namespace) continue;
    const message = `namespace is ${given}, and the API key is of the namespace ${caller.namespace}`;
    throw new RametError("InvalidArgument", message, { hint: "Leave it out, or use a key of that namespace" });
  }
  const requested = {
    idleTimeout,
    "storage.snapshotOnStop": storage?.snapshotOnStop,
    "storage.shared": storage?.shared,
  };
  const field = Object.entries(requested).find(([, value]) => value !== undefined && value !== false)?.[0];
  if (field !== undefined) throw new RametError("NotSupported", `${field} is not supported`);
}

/** AgentTier's defaults. */
function storageOf(storage: NewSandbox["storage"]): Storage | undefined {
  if (storage === undefined) return undefined;
  const { size = "10Gi", storageClass, mountPath = "/workspace" } = storage;
  return { size, mountPath, ...(storageClass !== undefined && storageClass !== "" && { storageClass }) };
}

/** @returns milliseconds; without a time the longest life @throws RametError `InvalidArgument` */
function lifeOf({ maxLifeSeconds }: AgentTier, timeout: string | undefined): number {
  const longest = maxLifeSeconds * 1000;
  const life = timeout === undefined ? longest : parseDuration(timeout, "timeout");
  if (life > 0 && life <= longest) return life;
  throw new RametError("InvalidArgument", `timeout is ${timeout ?? ""}, and must be from 1s to ${maxLifeSeconds}s`);
}

export async function clone(agentTier: AgentTier, call: Call<Clone>): Promise<unknown> {
  const { service } = agentTier;
  const { request, reply, caller, signal } = call;
  const { snapshotClass = "" } = call.body ?? {};
  if (snapshotClass !== "") throw new RametError("NotSupported", "snapshotClass is not supported");
  checkSnapshotLimit(service, caller);
  const source = await agentTier.sandboxOf(call);
  const { name: sourceName, namespace } = source.metadata;
  const requestId = requestIdOf(caller.key, request.headers["idempotency-key"]) ?? randomUUID();
  const life = source.metadata.annotations?.[annotations.clientLife];
  const given = {
    owner: caller.key,
    requestId,
    onTimeout: "pause" as const,
    lifeMilliseconds: lifeOf(agentTier, life),
    annotations: life === undefined ? {} : { [annotations.clientLife]: life },
    timeoutMilliseconds,
    signal,
  };
  const make = () => startNamed(service, source, given, call.body?.name);
  const started = await withinSandboxLimit(service, caller, make, { requestId });
  const { name } = started.clone.metadata;
  return reply.code(202).send({
    name,
    namespace,
    snapshot: started.checkpoint,
    clonedFrom: sourceName,
    phase: "Pending",
    message: `Clone in progress. Poll GET /api/v1/sandboxes/${name} for status.`,
  });
}

/** Without a name, it has the one of an earlier attempt, or the default name of the first second of which no other clone has it. */
async function startNamed(
  service: AgentTier["service"],
  source: Sandbox,
  given: Omit<CloneSandbox, "name">,
  name: string | undefined,
): Promise<StartedClone> {
  if (name) return startClone(service, source, { ...given, name });
  const { namespace, name: sourceName } = source.metadata;
  const earlier = service.known.sandboxesIn(namespace).find((each) => isOfRequest(each, given.requestId));
  if (earlier !== undefined) return startClone(service, source, { ...given, name: earlier.metadata.name });
  const now = service.clock.now().getTime();
  for (let seconds = 0; ; seconds++) {
    const own = defaultCloneName(sourceName, new Date(now + seconds * 1000));
    try {
      return await startClone(service, source, { ...given, name: own });
    } catch (error) {
      if (RametError.from(error).code !== "AlreadyExists" || seconds >= mostSeconds) throw error;
    }
  }
}

const mostSeconds = 10;

/** `<source>-clone-<seconds>`, in which a long name is truncated. */
export function defaultCloneName(source: string, now: Date): string {
  const suffix = `-clone-${Math.floor(now.getTime() / 1000)}`;
  return `${source.slice(0, 63 - suffix.length).replace(/-+$/, "")}${suffix}`;
}

export function list({ service }: AgentTier, { caller, query }: Call<unknown, ListSandboxes>): object {
  const { namespace, status } = query;
  const isOther = namespace !== undefined && namespace !== "" && namespace !== caller.namespace;
  const sandboxes = (isOther ? [] : service.known.sandboxesIn(caller.namespace))
    .map((sandbox) => service.writes.latest(sandbox))
    .filter(isForClients)
    .map((sandbox) => sandboxSummary(sandbox, stateOf(sandbox, service.known.checkpointsOf(sandbox))))
    .filter((sandbox) => status === undefined || status === "" || sandbox.status === status)
    .toSorted((a, b) => b.createdAt.localeCompare(a.createdAt) || a.name.localeCompare(b.name));
  return { sandboxes };
}

export function summaryOf({ service }: AgentTier, sandbox: Sandbox) {
  const current = service.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  return sandboxSummary(current, currentState(service, sandbox));
}

/** A long pause goes on after the answer, as in AgentTier. */
export async function stop(agentTier: AgentTier, call: Call): Promise<void> {
  const { service } = agentTier;
  const sandbox = await agentTier.sandboxOf(call);
  const stoppable = [...servingStates, "pausing"] as const;
  const state = await verifiedState(service, sandbox, call.signal, stoppable);
  if (!stoppable.includes(state)) throw notIn(sandbox, state, "stopped");
  const waiting = { timeoutMilliseconds: timeoutMilliseconds, signal: call.signal };
  await pauseSandbox(service, sandbox, { keepMemory: true, ...waiting }).catch((error: unknown) => {
    if (RametError.from(error).code !== "Timeout") throw error;
  });
}

export async function resume(agentTier: AgentTier, call: Call): Promise<void> {
  const { service } = agentTier;
  const sandbox = await agentTier.sandboxOf(call);
  const state = await verifiedState(service, sandbox, call.signal, ["paused"]);
  if (state !== "paused") throw notIn(sandbox, state, "resumed");
  const life = sandbox.metadata.annotations?.[annotations.clientLife];
  await requestResume(service, sandbox, lifeOf(agentTier, life));
}

function notIn({ metadata: { name } }: Sandbox, state: string, what: string): RametError {
  return new RametError("Conflict", `The sandbox ${name} is ${state}, so it cannot be ${what}`);
}
