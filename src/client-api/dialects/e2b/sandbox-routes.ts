import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { RametError, isFulfilled } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { leastAutoResumeSeconds } from "../../service/auto-resume.ts";
import { createSandbox, type OnTimeout } from "../../service/create-sandbox.ts";
import { sandboxIdOf, isForClients, stateOf } from "../../service/find-sandbox.ts";
import { forkSandbox } from "../../service/clone-sandbox.ts";
import { takeSnapshot, withinSandboxLimit } from "../../service/key-limits.ts";
import {
  connectSandbox,
  killSandbox,
  pauseSandbox,
  servingStates,
  setLife,
  setNetwork,
  verifiedState,
} from "../../service/lifecycle.ts";
import { ForkResult, ListedSandbox, SandboxAccess, SandboxDetail, errorAnswer } from "./answers.ts";
import { accessTo, type Call, type E2b, type E2bRoute, route, sandboxOf } from "./call.ts";
import { pageFor } from "./cursor.ts";
import { guestSample } from "../../service/observe.ts";
import { metadataAnnotation, metadataFilter } from "../../service/client-metadata.ts";
import { clientTokens, networkView, noNetwork, requestedNetwork, trafficAnnotations } from "./network.ts";
import { lifecycleOf, listedSandbox, pauseModeOf, startedAt, templateIdOf } from "./sandbox-view.ts";
import { Connect, Fork, ListSandboxes, NetworkUpdate, NewSandbox, Pause, Refresh, Resume, Timeout } from "./schemas.ts";

/** Clients wait 60 seconds by default. */
const timeoutMilliseconds = 55_000;

/** E2B's defaults of its raw API: the SDKs send a time. */
const defaultLife = { v1: 15, v2: 300 };

const createNeeds = [...needs.create, ...needs.enter];
const connectNeeds = [...needs.change, ...needs.enter];
const ofSandbox = "/sandboxes/:sandboxID";

export const sandboxRoutes: readonly E2bRoute[] = [
  route("POST", "/sandboxes", {
    summary: "Creates a sandbox from a template, a set or a snapshot, and waits until it serves.",
    needs: createNeeds,
    body: NewSandbox,
    answers: { 201: SandboxAccess },
    handle: (e2b, call) => create(e2b, call, defaultLife.v1),
  }),
  route("POST", "/v2/sandboxes", {
    summary: "The same, with a longer time by default.",
    needs: createNeeds,
    body: NewSandbox,
    answers: { 201: SandboxAccess },
    handle: (e2b, call) => create(e2b, call, defaultLife.v2),
  }),
  route("GET", "/sandboxes", {
    summary: "Lists the running sandboxes of the namespace.",
    needs: needs.list,
    query: ListSandboxes,
    answers: { 200: z.array(ListedSandbox) },
    handle: (e2b, call) => list(e2b, call, { isV1: true }),
  }),
  route("GET", "/v2/sandboxes", {
    summary: "Lists sandboxes page by page. The header X-Next-Token continues the list.",
    needs: needs.list,
    query: ListSandboxes,
    answers: { 200: z.array(ListedSandbox) },
    handle: (e2b, call) => list(e2b, call, { isV1: false }),
  }),
  route("GET", ofSandbox, {
    summary: "Describes a sandbox.",
    needs: needs.read,
    answers: { 200: SandboxDetail },
    handle: async (e2b, call) => {
      const sandbox = await sandboxOf(e2b, call);
      const state = stateOf(sandbox);
      if (state === "killing" || state === "ended")
        throw new RametError("NotFound", `The sandbox ${sandboxIdOf(sandbox)} does not exist`);
      const { envdAccessToken, domain } = await accessTo(e2b, sandbox, call.caller);
      const canEnter = await isFulfilled(e2b.callers.require(call.caller, ...needs.enter));
      return {
        ...listedSandbox(e2b.service, sandbox),
        lifecycle: lifecycleOf(sandbox),
        ...networkView(sandbox),
        domain,
        ...(state === "paused" && { pauseMode: pauseModeOf(sandbox) }),
        ...(canEnter && { envdAccessToken }),
      };
    },
  }),
  route("DELETE", ofSandbox, {
    summary: "Deletes a sandbox. Its snapshots stay.",
    needs: needs.kill,
    answers: { 204: null },
    handle: async (e2b, call) => killSandbox(e2b.service, await sandboxOf(e2b, call), call.signal),
  }),
  route("POST", `${ofSandbox}/pause`, {
    summary: "Pauses a sandbox, and waits until its state is stored.",
    needs: needs.change,
    body: Pause,
    answers: { 204: null },
    handle: async (e2b, call) => {
      const { memory = true, requireHealthyGuest = false } = call.body ?? {};
      const pause = { keepMemory: memory, timeoutMilliseconds, signal: call.signal };
      const sandbox = await sandboxOf(e2b, call);
      if (requireHealthyGuest) await guestSample(e2b, sandbox, call.signal);
      await pauseSandbox(e2b.service, sandbox, pause);
    },
  }),
  ...["", "/v2"].map((version) =>
    route("POST", `${version}${ofSandbox}/connect`, {
      summary: "Resumes a paused sandbox, or extends the time of a running one.",
      needs: connectNeeds,
      body: Connect,
      answers: { 200: SandboxAccess, 201: SandboxAccess },
      handle: async (e2b, call) => {
        const { timeout = defaultLife.v2, memory = true } = call.body ?? {};
        const found = await sandboxOf(e2b, call);
        if (!memory && found.spec.paused === true && pauseModeOf(found) === "full")
          throw new RametError("NotSupported", "memory: false is not supported for paused sandboxes with memory");
        const connect = { lifeMilliseconds: lifeOf(e2b, timeout), timeoutMilliseconds, signal: call.signal };
        const { sandbox, resumed } = await connectSandbox(e2b.service, found, connect);
        if (resumed) void call.reply.code(201);
        return accessTo(e2b, sandbox, call.caller);
      },
    }),
  ),
  // SDKs before 2.6 resume by this route, after they have tried to extend the time.
  route("POST", `${ofSandbox}/resume`, {
    summary: "Resumes a paused sandbox.",
    needs: connectNeeds,
    body: Resume,
    answers: { 201: SandboxAccess },
    handle: async (e2b, call) => {
      const { timeout = defaultLife.v1 } = call.body ?? {};
      const sandbox = await sandboxOf(e2b, call);
      const { name } = sandbox.metadata;
      const state = await verifiedState(e2b.service, sandbox, call.signal, ["paused", "pausing"]);
      if (state === "killing") throw new RametError("NotFound", `The sandbox ${name} is being deleted`);
      if (state !== "paused" && state !== "pausing")
        throw new RametError("Conflict", `The sandbox ${name} is not paused`);
      const connect = { lifeMilliseconds: lifeOf(e2b, timeout), timeoutMilliseconds, signal: call.signal };
      const connected = await connectSandbox(e2b.service, sandbox, connect);
      return accessTo(e2b, connected.sandbox, call.caller);
    },
  }),
  route("POST", `${ofSandbox}/timeout`, {
    summary: "Sets the remaining time of a running sandbox.",
    needs: needs.change,
    body: Timeout,
    answers: { 204: null },
    handle: async (e2b, call) => {
      // 0 ends the time now.
      const life = { lifeMilliseconds: lifeOf(e2b, call.body.timeout, 0), extendOnly: false, signal: call.signal };
      await setLife(e2b.service, await sandboxOf(e2b, call), life);
    },
  }),
  route("POST", `${ofSandbox}/refreshes`, {
    summary: "Extends the time of a running sandbox.",
    needs: needs.change,
    body: Refresh,
    answers: { 204: null },
    handle: async (e2b, call) => {
      const { duration = defaultLife.v1 } = call.body ?? {};
      const lifeMilliseconds = lifeOf(e2b, Math.max(duration, defaultLife.v1));
      const life = { lifeMilliseconds, extendOnly: true, signal: call.signal };
      await setLife(e2b.service, await sandboxOf(e2b, call), life);
    },
  }),
  route("PUT", `${ofSandbox}/network`, {
    summary: "Replaces the egress rules and the credentials of a sandbox.",
    needs: needs.change,
    body: NetworkUpdate,
    answers: { 204: null },
    handle: async (e2b, call) => {
      const sandbox = await sandboxOf(e2b, call);
      const { allow_internet_access, ...network } = call.body;
      const tokens = clientTokens(sandbox);
      const requested = await requestedNetwork(e2b, call.caller, { allow_internet_access, network, tokens });
      const change = { requested: { ...noNetwork, ...requested }, timeoutMilliseconds, signal: call.signal };
      await setNetwork(e2b.service, sandbox, change);
    },
  }),
  route("POST", `${ofSandbox}/fork`, {
    summary: "Captures a running sandbox once, and creates clones of it.",
    needs: [...createNeeds, ...needs.capture],
    body: Fork,
    answers: { 201: z.array(ForkResult) },
    handle: async (e2b, call) => {
      const { timeout = defaultLife.v1, count = 1 } = call.body ?? {};
      const { caller, signal } = call;
      const lifeMilliseconds = lifeOf(e2b, timeout);
      takeSnapshot(e2b.service, caller);
      const source = await sandboxOf(e2b, call);
      const state = await verifiedState(e2b.service, source, signal, ["starting", ...servingStates]);
      if (state !== "running" && state !== "starting")
        throw new RametError("Conflict", `The sandbox ${source.metadata.name} is ${state}, so it cannot be forked`);
      const given = {
        owner: caller.key,
        seal: await e2b.secrets.requestSeal(),
        onTimeout: "kill" as const,
        lifeMilliseconds,
        timeoutMilliseconds,
        signal,
      };
      const results = await withinSandboxLimit(
        e2b.service,
        caller,
        (requestIds) => forkSandbox(e2b.service, source, { ...given, requestIds }),
        { count },
      );
      const answers = results.map(async (result) =>
        "failure" in result
          ? { error: errorAnswer(result.failure).body }
          : { sandbox: await accessTo(e2b, result.object, caller) },
      );
      return Promise.all(answers);
    },
  }),
];

async function create(
  e2b: E2b,
  { request, caller, signal, body }: Call<typeof NewSandbox>,
  defaultSeconds: number,
): Promise<SandboxAccess> {
  checkSupported(body);
  const { timeout = defaultSeconds, envVars } = body;
  const lifeMilliseconds = lifeOf(e2b, timeout);
  const given = {
    namespace: caller.namespace,
    owner: caller.key,
    source: body.templateID,
    onTimeout: onTimeoutIn(body),
    lifeMilliseconds,
    annotations: {
      ...metadataAnnotation(body.metadata),
      ...(await requestedNetwork(e2b, caller, { ...body, tokens: body.iam?.tokens ?? {} })),
      ...trafficAnnotations(body.network ?? {}),
      ...(body.autoResume?.enabled === true && {
        [annotations.autoResume]: `${Math.max(timeout, leastAutoResumeSeconds)}s`,
      }),
    },
    ...defined({ environment: envVars }),
    seal: await e2b.secrets.requestSeal(),
    timeoutMilliseconds,
    signal,
  };
  const repeatable = requestIdOf(caller.key, request);
  const sandbox = await withinSandboxLimit(
    e2b.service,
    caller,
    ([requestId = ""]) => createSandbox(e2b.service, { ...given, requestId, isRepeatable: repeatable !== undefined }),
    { requestId: repeatable },
  );
  return accessTo(e2b, sandbox, caller);
}

/** @throws RametError `NotSupported` or `InvalidArgument`, naming the field */
function checkSupported({ mcp, volumeMounts = [], autoPause, autoPauseMemory, autoResume }: NewSandbox): void {
  const requested = { mcp, volumeMounts: volumeMounts.length === 0 ? undefined : volumeMounts };
  const field = Object.entries(requested).find(([, value]) => value !== undefined && value !== null)?.[0];
  if (field !== undefined) throw new RametError("NotSupported", `${field} is not supported`);
  if (autoPauseMemory === false && autoPause !== true)
    throw new RametError("InvalidArgument", "autoPauseMemory needs autoPause");
  if (autoResume?.enabled !== true) return;
  if (autoPause !== true) throw new RametError("InvalidArgument", "autoResume needs autoPause");
  if (autoPauseMemory === false)
    throw new RametError("InvalidArgument", "autoResume needs the memory, which autoPauseMemory: false does not keep");
}

function onTimeoutIn({ autoPause = false, autoPauseMemory = true }: NewSandbox): OnTimeout {
  if (!autoPause) return "kill";
  return autoPauseMemory ? "pause" : "pauseFiles";
}

/** @throws RametError `InvalidArgument` */
function lifeOf({ maxLifeSeconds }: E2b, seconds: number, leastSeconds = 1): number {
  if (seconds < leastSeconds)
    throw new RametError("InvalidArgument", `timeout is ${seconds}, and must be at least ${leastSeconds} seconds`);
  if (seconds <= maxLifeSeconds) return seconds * 1000;
  throw new RametError("InvalidArgument", `timeout is ${seconds}, and must be at most ${maxLifeSeconds} seconds`, {
    hint: "Extend the time of the sandbox while it runs",
  });
}

function list({ service }: E2b, call: Call<z.ZodUnknown, typeof ListSandboxes>, { isV1 }: { isV1: boolean }) {
  const { query, reply } = call;
  const { startedAfter, template, state } = query;
  const matches = query.metadata === undefined ? () => true : metadataFilter(query.metadata);
  const all = service.known
    .sandboxesIn(call.caller.namespace)
    .map((sandbox) => service.writes.latest(sandbox))
    .filter((sandbox) => isListed(sandbox, isV1 ? ["running"] : state))
    .filter((sandbox) => startedAfter === undefined || Date.parse(startedAt(sandbox)) >= Date.parse(startedAfter))
    .filter((sandbox) => template === undefined || templateIdOf(sandbox) === template)
    .filter(matches);
  if (state.includes("running"))
    void reply.header("x-total-running", all.filter(({ spec }) => spec.paused !== true).length);
  const keyOf = (sandbox: Sandbox) => ({ time: startedAt(sandbox), id: sandboxIdOf(sandbox) });
  const page = pageFor(reply, all, keyOf, isV1 ? { limit: Infinity, order: query.order } : query);
  return page.map((sandbox) => listedSandbox(service, sandbox));
}

function isListed(sandbox: Sandbox, states: readonly string[]): boolean {
  const state = stateOf(sandbox);
  if (state === "killing" || state === "ended" || !isForClients(sandbox)) return false;
  return states.includes(sandbox.spec.paused === true ? "paused" : "running");
}
