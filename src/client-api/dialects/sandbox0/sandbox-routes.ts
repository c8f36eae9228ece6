import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { RametError, resultOr } from "../../../base/errors.ts";
import { parseDuration } from "../../../base/duration.ts";
import type { Change } from "../../../operations/objects.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { unlessTimeout } from "../../service/cache-lag.ts";
import { createSandbox, endAfter } from "../../service/create-sandbox.ts";
import { isForClients, sandboxIdOf, stateOf } from "../../service/find-sandbox.ts";
import { withinSandboxLimit } from "../../service/key-limits.ts";
import {
  changeNewest,
  connectSandbox,
  currentState,
  ensurePaused,
  hasFailedPause,
  killSandbox,
  verifiedState,
} from "../../service/lifecycle.ts";
import {
  Claimed,
  endsOf,
  Paused,
  Refreshed,
  Resumed,
  type SandboxDetail as Detail,
  SandboxDetail,
  sandboxDetail,
  SandboxStatus,
  SandboxSummary,
  sandboxSummary,
  statusOf,
} from "./answers.ts";
import {
  type Call,
  envelope,
  olderPrefix,
  route,
  type Sandbox0,
  type Sandbox0Route,
  sandboxOf,
  success,
  timeoutMilliseconds,
} from "./call.ts";
import { egressAnnotation } from "./network-routes.ts";
import { serviceAnnotations } from "./service-routes.ts";
import { Claim, type Config, ExecutionState, ListSandboxes, Refresh, Update } from "./schemas.ts";

const sandboxes = "/api/v1/sandboxes";

export const sandboxRoutes: readonly Sandbox0Route[] = [
  route("POST", sandboxes, {
    summary:
      "Creates a sandbox from a template, with the files of a snapshot if one is named, and waits until it serves.",
    needs: [...needs.create, ...needs.enter],
    body: Claim,
    answers: { 201: envelope(Claimed) },
    handle: claim,
  }),
  route("GET", sandboxes, {
    summary: "Lists the sandboxes of the namespace, newest first.",
    needs: needs.list,
    query: ListSandboxes,
    answers: {
      200: envelope(z.object({ sandboxes: z.array(SandboxSummary), count: z.int(), has_more: z.boolean() })),
    },
    handle: ({ service }, { caller, query: { status, template_id: template, paused, limit, offset } }) => {
      const all = service.known
        .sandboxesIn(caller.namespace)
        .map((sandbox) => service.writes.latest(sandbox))
        .filter(isForClients)
        .map((sandbox) => sandboxSummary(sandbox, stateOf(sandbox, service.known.checkpointsOf(sandbox))))
        .filter((each) => status === undefined || each.status === status)
        .filter((each) => template === undefined || each.template_id === template)
        .filter((each) => paused === undefined || each.paused === paused)
        .toSorted((a, b) => b.created_at.localeCompare(a.created_at) || a.id.localeCompare(b.id));
      const page = all.slice(offset, offset + limit);
      return success({ sandboxes: page, count: all.length, has_more: offset + page.length < all.length });
    },
  }),
  route("GET", `${sandboxes}/:id`, {
    summary: "Describes a sandbox.",
    needs: needs.read,
    answers: { 200: envelope(SandboxDetail) },
    handle: async (sandbox0, call) => success(detailOf(sandbox0, await sandboxOf(sandbox0, call), call)),
  }),
  route("GET", `${sandboxes}/:id/status`, {
    summary: "Describes the state of a sandbox.",
    needs: needs.read,
    answers: { 200: envelope(SandboxStatus) },
    handle: async (sandbox0, call) => {
      const detail = detailOf(sandbox0, await sandboxOf(sandbox0, call), call);
      return success({ ...SandboxStatus.omit({ sandbox_id: true }).parse(detail), sandbox_id: detail.id });
    },
  }),
  route("PUT", `${sandboxes}/:id`, {
    summary: "Changes the times of a sandbox, which begin anew. 0 disables a time.",
    needs: needs.change,
    body: Update,
    answers: { 200: envelope(SandboxDetail) },
    handle: async (sandbox0, call) => {
      const { config } = call.body;
      checkSupported(config, ["env_vars", "network", "services"]);
      const sandbox = await sandboxOf(sandbox0, call);
      const times = { ...timesOf(sandbox), ...defined(requestedTimes(config)) };
      const written = await setTimes(sandbox0, sandbox, times, call);
      return success(detailOf(sandbox0, written, call));
    },
  }),
  route("DELETE", `${sandboxes}/:id`, {
    summary: "Deletes a sandbox. Its snapshots, and what was created from them, stay.",
    needs: needs.kill,
    answers: {
      202: envelope(z.object({ message: z.string() })),
      200: envelope(z.object({ message: z.string().describe("Below /sandbox0/0.9.") })),
    },
    handle: async (sandbox0, call) => {
      void call.reply.code(call.request.url.startsWith(`${olderPrefix}/`) ? 200 : 202);
      await killSandbox(sandbox0.service, await sandboxOf(sandbox0, call), call.signal);
      return success({ message: "sandbox terminated" });
    },
  }),
  route("POST", `${sandboxes}/:id/pause`, {
    summary:
      "Pauses a sandbox: keeps its files, and its memory only if that is requested. A long pause continues after the answer.",
    needs: needs.change,
    body: ExecutionState,
    answers: { 200: envelope(Paused) },
    handle: async (sandbox0, call) => {
      const { service } = sandbox0;
      const sandbox = await sandboxOf(sandbox0, call);
      const keepMemory = call.body?.memory ?? false;
      const pause = { keepMemory, timeoutMilliseconds: pauseMilliseconds, signal: call.signal };
      await ensurePaused(service, sandbox, pause).catch(unlessTimeout);
      const { id, paused, status } = detailOf(sandbox0, sandbox, call);
      return success({ sandbox_id: id, paused, status });
    },
  }),
  route("POST", `${sandboxes}/:id/resume`, {
    summary: "Resumes a paused sandbox, and waits until it serves. Its soft time begins anew.",
    needs: [...needs.change, ...needs.enter],
    body: ExecutionState,
    answers: { 200: envelope(Resumed) },
    handle: async (sandbox0, call) => {
      const sandbox = await sandboxOf(sandbox0, call);
      const lifeMilliseconds = softLife(sandbox0, timesOf(sandbox));
      const connect = { lifeMilliseconds, timeoutMilliseconds, signal: call.signal };
      const { resumed } = await connectSandbox(sandbox0.service, sandbox, connect);
      return success({ sandbox_id: sandboxIdOf(sandbox), resumed });
    },
  }),
  route("POST", `${sandboxes}/:id/refresh`, {
    summary: "Lets both times of a running sandbox begin anew.",
    needs: needs.change,
    body: Refresh,
    answers: { 200: envelope(Refreshed) },
    handle: async (sandbox0, call) => {
      const { service } = sandbox0;
      const sandbox = await sandboxOf(sandbox0, call);
      const state = await verifiedState(service, sandbox, call.signal, ["running"]);
      const isPaused = state === "paused" && !hasFailedPause(service, sandbox);
      if (isPaused || state === "pausing") throw new RametError("Conflict", `The sandbox is ${state}`);
      const duration = call.body?.duration;
      const times = { ...timesOf(sandbox), ...defined({ softMilliseconds: duration && duration * 1000 }) };
      return success({ sandbox_id: sandboxIdOf(sandbox), ...endsOf(await setTimes(sandbox0, sandbox, times, call)) });
    },
  }),
];

/** Clients poll until a longer pause has ended. */
const pauseMilliseconds = 10_000;

async function claim(sandbox0: Sandbox0, call: Call<typeof Claim>) {
  const { service, secrets } = sandbox0;
  const { request, caller, signal, body } = call;
  const { template, snapshot_id: snapshot, config = {}, mounts = [] } = body;
  checkSupported(config);
  if (mounts.length > 0) throw unsupported("mounts", "Declare volumes in the template");
  const times = requestedTimes(config);
  const given = {
    namespace: caller.namespace,
    owner: caller.key,
    source: template,
    snapshot,
    // A sandbox whose soft time is over is paused as by a request.
    onTimeout: "pauseFiles" as const,
    ...livesOf(sandbox0, times),
    annotations: defined({ ...timeAnnotations(times), ...requestedAnnotations(config) }),
    environment: config.env_vars ?? {},
    seal: await secrets.requestSeal(),
    timeoutMilliseconds,
    signal,
  };
  const requestId = requestIdOf(caller.key, request);
  const create = ([id]: readonly string[]) =>
    createSandbox(service, { ...given, isRepeatable: requestId !== undefined, ...defined({ requestId: id }) });
  const sandbox = await withinSandboxLimit(service, caller, create, { requestId });
  const { name } = sandbox.metadata;
  return success({
    sandbox_id: sandboxIdOf(sandbox),
    status: statusOf(sandbox, stateOf(sandbox)),
    pod_name: name,
    runtime_id: name,
    template,
    cluster_id: null,
  });
}

/** The newest known version of a sandbox, as clients get it. */
export function detailOf({ service }: Sandbox0, sandbox: Sandbox, { caller }: Pick<Call, "caller">): Detail {
  const current = service.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  return sandboxDetail(current, currentState(service, sandbox), caller);
}

/** @throws RametError `InvalidArgument`, naming the field */
function checkSupported(config: Config, others: readonly (keyof Config)[] = []): void {
  const { resources, webhook } = config;
  const fields: [string, unknown, string][] = [
    ["resources.memory", resources?.memory, "The template sets the resources"],
    ["webhook", webhook ?? undefined, "Watch the Sandboxes"],
    ...others.map((name): [string, unknown, string] => [
      name,
      config[name],
      "Set it in the claim, or with its own route",
    ]),
  ];
  for (const [field, value, hint] of fields) if (value !== undefined) throw unsupported(`config.${field}`, hint);
}

function unsupported(field: string, hint: string): RametError {
  return new RametError("InvalidArgument", `${field} is not supported`, { hint });
}

function requestedAnnotations({ network, services = [] }: Config): Record<string, string | undefined> {
  const noted = Object.entries(serviceAnnotations(services)).map(([name, text]) => [name, text ?? undefined] as const);
  return Object.fromEntries([...noted, [annotations.egress, network && egressAnnotation(network)] as const]);
}

/** Undefined: not given. 0: none. */
export interface Times {
  softMilliseconds?: number | undefined;
  hardMilliseconds?: number | undefined;
}

export function requestedTimes({ ttl, hard_ttl: hard }: Pick<Config, "ttl" | "hard_ttl">): Times {
  const milliseconds = (seconds: number | undefined) => (seconds === undefined ? undefined : seconds * 1000);
  return { softMilliseconds: milliseconds(ttl), hardMilliseconds: milliseconds(hard) };
}

/** Those that a client has requested. Users can write the annotations. */
export function timesOf({ metadata: { annotations: noted = {} } }: Sandbox): Times {
  const read = (text: string | undefined) =>
    text === undefined ? undefined : resultOr(() => parseDuration(text), undefined);
  return {
    softMilliseconds: read(noted[annotations.clientLife]),
    hardMilliseconds: read(noted[annotations.clientHardLife]),
  };
}

export function timeAnnotations({ softMilliseconds: soft = 0, hardMilliseconds: hard = 0 }: Times) {
  return {
    [annotations.clientLife]: soft > 0 ? `${soft / 1000}s` : undefined,
    [annotations.clientHardLife]: hard > 0 ? `${hard / 1000}s` : undefined,
  };
}

/** @throws RametError `InvalidArgument` for times that exceed the longest one or each other */
export function livesOf(sandbox0: Pick<Sandbox0, "maxLifeSeconds">, times: Times) {
  const { hardMilliseconds: hard = 0 } = times;
  const longest = sandbox0.maxLifeSeconds * 1000;
  const soft = softLife(sandbox0, times);
  if (Math.max(soft, hard) > longest)
    throw new RametError("InvalidArgument", `ttl and hard_ttl must be at most ${sandbox0.maxLifeSeconds} seconds`);
  if (hard > 0 && (times.softMilliseconds ?? 0) > hard)
    throw new RametError("InvalidArgument", "ttl must not be longer than hard_ttl");
  return { lifeMilliseconds: soft, ...(hard > 0 && { hardLifeMilliseconds: hard }) };
}

/** Without a soft time, a sandbox is paused after the longest one: nothing but its processes is lost then. */
function softLife({ maxLifeSeconds }: Pick<Sandbox0, "maxLifeSeconds">, { softMilliseconds: soft = 0 }: Times): number {
  return soft > 0 ? soft : maxLifeSeconds * 1000;
}

/** Of a paused sandbox, only the hard time runs. One whose pause has failed runs. */
async function setTimes(
  sandbox0: Sandbox0,
  sandbox: Sandbox,
  times: Times,
  { signal }: Pick<Call, "signal">,
): Promise<Sandbox> {
  const { service } = sandbox0;
  const { lifeMilliseconds, hardLifeMilliseconds } = livesOf(sandbox0, times);
  if (hasFailedPause(service, sandbox))
    await connectSandbox(service, sandbox, { lifeMilliseconds, timeoutMilliseconds, signal });
  const at = (milliseconds: number | undefined) =>
    milliseconds === undefined ? null : endAfter(service, milliseconds).toISOString();
  const noted = Object.entries(timeAnnotations(times)).map(([name, value]) => [name, value ?? null]);
  const change = ({ spec }: Sandbox): Change => ({
    metadata: { annotations: Object.fromEntries(noted) as Record<string, string | null> },
    spec: { pauseTime: spec.paused === true ? null : at(lifeMilliseconds), shutdownTime: at(hardLifeMilliseconds) },
  });
  // Reads the sandbox again if another server has just resumed it.
  return (await changeNewest(service, sandbox, change, signal)) ?? sandbox;
}
