import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import type { HeldBytes } from "../../../base/byte-budget.ts";
import { defined } from "../../../base/defined.ts";
import { parseDuration } from "../../../base/duration.ts";
import { RametError } from "../../../base/errors.ts";
import { CollectedBytes } from "../../../base/http.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { causeOfLoss } from "../../../operations/cause-of-loss.ts";
import type { Caller } from "../../keys/callers.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { type CloneSandbox, startClone, type StartedClone as Started } from "../../service/clone-sandbox.ts";
import { takeSnapshot, withinSandboxLimit } from "../../service/key-limits.ts";
import {
  currentState,
  killSandbox,
  pauseSandbox,
  requestResume,
  servingStates,
  verifiedState,
} from "../../service/lifecycle.ts";
import { createNamed, isOfRequest, type Storage } from "../../service/create-sandbox.ts";
import { isForClients, stateOf } from "../../service/find-sandbox.ts";
import { runCommand } from "../../service/run-command.ts";
import { currentSource } from "../../service/source.ts";
import { type AgentTier, type AgentTierRoute, guestFor, route, sandboxOf } from "./call.ts";
import { CreatedSandbox, Ran, sandboxSummary, SandboxSummary, StartedClone } from "./sandbox-view.ts";
import { Clone, Exec, ListSandboxes, NewSandbox } from "./schemas.ts";

/** Clients wait 30 seconds by default. */
const timeoutMilliseconds = 25_000;

/** The namespace that the client sends if its user names none. */
const defaultNamespace = "default";

export const sandboxRoutes: readonly AgentTierRoute[] = [
  route("POST", "/sandboxes", {
    summary: "Creates a sandbox from a template, a set or a snapshot, and does not wait for it.",
    needs: [...needs.create, ...needs.enter],
    body: NewSandbox,
    answers: { 201: CreatedSandbox },
    handle: async (agentTier, { request, caller, signal, body }) => {
      const { service } = agentTier;
      const { name, templateRef, timeout } = body;
      checkSupported(body, caller);
      const { namespace, key: owner } = caller;
      const source = await currentSource(service, namespace, templateRef.name, signal);
      const requestId = requestIdOf(owner, request) ?? randomUUID();
      const given = {
        namespace,
        name,
        owner,
        requestId,
        // Nothing in a sandbox is lost when its time is over.
        onTimeout: "pause" as const,
        lifeMilliseconds: lifeOf(agentTier, timeout),
        annotations: defined({ [annotations.clientTemplate]: templateRef.name, [annotations.clientLife]: timeout }),
        storage: storageOf(body.storage),
        signal,
      };
      await withinSandboxLimit(service, caller, () => createNamed(service, given, source), { requestId });
      return { sandboxId: name, name, namespace, status: "Creating", templateRef: templateRef.name };
    },
  }),
  route("GET", "/sandboxes", {
    summary: "Lists the sandboxes of the namespace, newest first.",
    needs: needs.list,
    query: ListSandboxes,
    answers: { 200: z.object({ sandboxes: z.array(SandboxSummary) }) },
    handle: ({ service }, { caller, query: { namespace, status } }) => {
      const isOther = namespace !== undefined && namespace !== "" && namespace !== caller.namespace;
      const sandboxes = (isOther ? [] : service.known.sandboxesIn(caller.namespace))
        .map((sandbox) => service.writes.latest(sandbox))
        .filter(isForClients)
        .map((sandbox) => sandboxSummary(sandbox, stateOf(sandbox, service.known.checkpointsOf(sandbox))))
        .filter((sandbox) => status === undefined || status === "" || sandbox.status === status)
        .toSorted((a, b) => b.createdAt.localeCompare(a.createdAt) || a.name.localeCompare(b.name));
      return { sandboxes };
    },
  }),
  route("GET", "/sandboxes/:id", {
    summary: "Describes a sandbox.",
    needs: needs.read,
    answers: { 200: SandboxSummary },
    handle: async (agentTier, call) => {
      const { service } = agentTier;
      const sandbox = await sandboxOf(agentTier, call);
      const current = service.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
      return sandboxSummary(current, currentState(service, sandbox));
    },
  }),
  route("DELETE", "/sandboxes/:id", {
    summary: "Deletes a sandbox with everything in it. The checkpoints of clones stay.",
    needs: needs.kill,
    answers: { 204: null },
    handle: async (agentTier, call) => killSandbox(agentTier.service, await sandboxOf(agentTier, call), call.signal),
  }),
  route("POST", "/sandboxes/:id/stop", {
    summary: "Pauses a running sandbox with its memory and files.",
    needs: needs.change,
    answers: { 200: z.object({ status: z.literal("stopping") }) },
    handle: async (agentTier, call) => {
      const { service } = agentTier;
      const sandbox = await sandboxOf(agentTier, call);
      const stoppable = [...servingStates, "pausing"] as const;
      const state = await verifiedState(service, sandbox, call.signal, stoppable);
      if (!stoppable.includes(state)) throw notIn(sandbox, state, "stopped");
      const pause = { keepMemory: true, timeoutMilliseconds, signal: call.signal };
      await pauseSandbox(service, sandbox, pause).catch((error: unknown) => {
        // A long pause continues after the answer, as in AgentTier.
        if (RametError.from(error).code !== "Timeout") throw error;
      });
      return { status: "stopping" };
    },
  }),
  route("POST", "/sandboxes/:id/resume", {
    summary: "Resumes a stopped sandbox, and does not wait for it.",
    needs: needs.change,
    answers: { 200: z.object({ status: z.literal("resuming") }) },
    handle: async (agentTier, call) => {
      const { service } = agentTier;
      const sandbox = await sandboxOf(agentTier, call);
      const state = await verifiedState(service, sandbox, call.signal, ["paused"]);
      if (state !== "paused") throw notIn(sandbox, state, "resumed");
      const life = sandbox.metadata.annotations?.[annotations.clientLife];
      await requestResume(service, sandbox, lifeOf(agentTier, life));
      return { status: "resuming" };
    },
  }),
  route("POST", "/sandboxes/:id/clone", {
    summary: "Starts a clone of a running or stopped sandbox, and does not wait for it.",
    needs: [...needs.create, ...needs.enter, ...needs.capture],
    body: Clone,
    answers: { 202: StartedClone },
    handle: async (agentTier, call) => {
      const { service } = agentTier;
      const { request, caller, signal } = call;
      const { snapshotClass = "", name: requested } = call.body ?? {};
      const requestId = requestIdOf(caller.key, request) ?? randomUUID();
      takeSnapshot(service, caller, requestId);
      const source = await sandboxOf(agentTier, call);
      const { name: clonedFrom, namespace } = source.metadata;
      const life = source.metadata.annotations?.[annotations.clientLife];
      const given = {
        owner: caller.key,
        requestId,
        onTimeout: "pause" as const,
        lifeMilliseconds: lifeOf(agentTier, life),
        annotations: defined({ [annotations.clientLife]: life }),
        snapshotClass: snapshotClass === "" ? undefined : snapshotClass,
        timeoutMilliseconds,
        signal,
      };
      const make = () => startNamed(service, source, given, requested);
      const { clone, checkpoint } = await withinSandboxLimit(service, caller, make, { requestId });
      const { name } = clone.metadata;
      const message = `Clone in progress. Poll GET /api/v1/sandboxes/${name} for status.`;
      return { name, namespace, snapshot: checkpoint, clonedFrom, phase: "Pending", message };
    },
  }),
  route("POST", "/sandboxes/:id/exec", {
    summary: "Runs a command by /bin/sh, and returns its output.",
    needs: needs.enter,
    body: Exec,
    answers: { 200: Ran },
    handle: async (agentTier, call) => {
      const { command, timeout } = call.body;
      const { signal, request, reply } = call;
      const guest = await guestFor(agentTier, call);
      const sandbox = await sandboxOf(agentTier, call);
      const running = { command, timeoutSeconds: timeout, held: request.held, signal };
      const ran = await exec(guest, running).catch(async (error: unknown) => {
        throw await causeOfLoss(agentTier.service.objects, sandbox, error, signal);
      });
      void reply.type("application/json; charset=utf-8");
      return Readable.from(jsonOf(ran));
    },
  }),
];

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

/** Without a name, it has the one of an earlier attempt, or the default name of the first second of which no other clone has it. */
async function startNamed(
  service: AgentTier["service"],
  source: Sandbox,
  given: Omit<CloneSandbox, "name">,
  name: string | undefined,
): Promise<Started> {
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

function notIn({ metadata: { name } }: Sandbox, state: string, what: string): RametError {
  return new RametError("Conflict", `The sandbox ${name} is ${state}, so it cannot be ${what}`);
}

/** The limit of stdout and stderr together. */
const mostOutputBytes = 32 * 1024 * 1024;

interface Executing {
  command: string;
  timeoutSeconds: number;
  /** Counts the output. */
  held: HeldBytes;
  signal: AbortSignal;
}

/** The output of a command, and its exit code. */
interface Executed extends Record<"stdout" | "stderr", CollectedBytes> {
  exitCode: number;
}

/** Runs a command by the shell of a sandbox. @throws RametError as {@link runCommand} does */
async function exec(guest: GuestClient, { command, timeoutSeconds, ...others }: Executing): Promise<Executed> {
  const start = { command: "/bin/sh", args: ["-c", command], timeoutMilliseconds: timeoutSeconds * 1000 };
  const output = { stdout: new CollectedBytes(), stderr: new CollectedBytes() };
  const { exitCode } = await runCommand(guest, { start, mostBytes: mostOutputBytes, ...others }, (stream, data) => {
    output[stream === "stderr" ? "stderr" : "stdout"].add(data);
  });
  return { ...output, exitCode };
}

/** The answer in pieces: output of binary data is several times larger as JSON. */
function* jsonOf({ stdout, stderr, exitCode }: Executed): Generator<string> {
  for (const [name, output] of Object.entries({ stdout, stderr })) {
    yield `${name === "stdout" ? "{" : ","}"${name}":"`;
    const decoder = new StringDecoder("utf8");
    for (const block of output.blocks()) yield inQuotes(decoder.write(block));
    yield `${inQuotes(decoder.end())}"`;
  }
  yield `,"exitCode":${exitCode}}`;
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
