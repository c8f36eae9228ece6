import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { requestIdOf } from "../../routes/common-routes.ts";
import { leastAutoResumeSeconds } from "../../service/auto-resume.ts";
import { createSandbox, type OnTimeout } from "../../service/create-sandbox.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import { forkSandbox } from "../../service/fork-sandbox.ts";
import { connectSandbox, servingStates, verifiedState } from "../../service/lifecycle.ts";
import { isForClients, stateOf } from "../../service/sandbox-state.ts";
import { compare, pageOf } from "./cursor.ts";
import type { Call, E2b } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { checkSnapshotLimit, withinSandboxLimit } from "../../service/key-limits.ts";
import { metadataAnnotation, metadataFilter } from "./metadata.ts";
import { needs } from "../../keys/needs.ts";
import { networkView } from "./network-view.ts";
import { requestedNetwork } from "./requested-network.ts";
import { lifecycleOf, listedSandbox, startedAt, templateIdOf } from "./sandbox-view.ts";
import type { Connect, Fork, ListSandboxes, NewSandbox, Resume, Network } from "./schemas.ts";
import { guestClientPort } from "../../../api/wire/cell-api.ts";
import { requestHost } from "../../../api/names/request-host.ts";

/** Clients wait 60 seconds by default. */
export const timeoutMilliseconds = 55_000;

/** E2B's defaults of its raw API: the SDKs send a time. */
export const defaultLife = { v1: 15, v2: 300 };

export async function create(
  e2b: E2b,
  { request, reply, caller, signal, body }: Call<NewSandbox>,
  defaultSeconds: number,
): Promise<unknown> {
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
  const sandbox = await withinSandboxLimit(
    e2b.service,
    caller,
    ([requestId = ""]) => createSandbox(e2b.service, { ...given, requestId }),
    { requestId: requestIdOf(caller.key, request.headers["idempotency-key"]) },
  );
  return reply.code(201).send(await e2b.accessTo(sandbox));
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
export function lifeOf({ maxLifeSeconds }: E2b, seconds: number, leastSeconds = 1): number {
  if (seconds < leastSeconds)
    throw new RametError("InvalidArgument", `timeout is ${seconds}, and must be at least ${leastSeconds} seconds`);
  if (seconds <= maxLifeSeconds) return seconds * 1000;
  throw new RametError("InvalidArgument", `timeout is ${seconds}, and must be at most ${maxLifeSeconds} seconds`, {
    hint: "Extend the time of the sandbox while it runs",
  });
}

export async function connect(e2b: E2b, call: Call<Connect>): Promise<unknown> {
  const { timeout = defaultLife.v2, memory = true } = call.body ?? {};
  if (!memory) throw new RametError("NotSupported", "memory: false is not supported for paused sandboxes with memory");
  const waiting = { timeoutMilliseconds, signal: call.signal };
  const lifeMilliseconds = lifeOf(e2b, timeout);
  const { sandbox, resumed } = await connectSandbox(e2b.service, await e2b.sandboxOf(call), {
    ...waiting,
    lifeMilliseconds,
  });
  return call.reply.code(resumed ? 201 : 200).send(await e2b.accessTo(sandbox));
}

/** SDKs before 2.6 resume by this route, after they have tried to extend the time. */
export async function resume(e2b: E2b, call: Call<Resume>): Promise<unknown> {
  const { timeout = defaultLife.v1 } = call.body ?? {};
  const sandbox = await e2b.sandboxOf(call);
  const state = await verifiedState(e2b.service, sandbox, call.signal, ["paused", "pausing"]);
  if (state === "killing") throw new RametError("NotFound", `The sandbox ${sandbox.metadata.name} is being deleted`);
  if (state !== "paused" && state !== "pausing")
    throw new RametError("Conflict", `The sandbox ${sandbox.metadata.name} is not paused`);
  const waiting = { timeoutMilliseconds, signal: call.signal };
  const connected = await connectSandbox(e2b.service, sandbox, { ...waiting, lifeMilliseconds: lifeOf(e2b, timeout) });
  return call.reply.code(201).send(await e2b.accessTo(connected.sandbox));
}

export async function get(e2b: E2b, call: Call): Promise<unknown> {
  const { service } = e2b;
  const sandbox = await e2b.sandboxOf(call);
  const state = stateOf(sandbox);
  if (state === "killing" || state === "ended")
    throw new RametError("NotFound", `The sandbox ${sandboxIdOf(sandbox)} does not exist`);
  const { envdAccessToken, domain } = await e2b.accessTo(sandbox);
  const canEnter = await e2b.callers.require(call.caller, ...needs.enter).then(
    () => true,
    () => false,
  );
  return call.reply.send({
    ...listedSandbox(sandbox, templateOf(service, sandbox), e2b.envdVersion),
    lifecycle: lifecycleOf(sandbox),
    ...networkView(sandbox),
    domain,
    ...(canEnter && { envdAccessToken }),
  });
}

export async function list(
  { service, envdVersion }: E2b,
  call: Call<unknown, ListSandboxes>,
  { isV1 }: { isV1: boolean },
): Promise<unknown> {
  const { query } = call;
  const { order, limit, nextToken, startedAfter, template } = query;
  const matches = query.metadata === undefined ? () => true : metadataFilter(query.metadata);
  const all = service.known
    .sandboxesIn(call.caller.namespace)
    .map((sandbox) => service.writes.latest(sandbox))
    .filter((sandbox) => isListed(sandbox, isV1 ? ["running"] : query.state))
    .filter((sandbox) => startedAfter === undefined || Date.parse(startedAt(sandbox)) >= Date.parse(startedAfter))
    .filter((sandbox) => template === undefined || templateIdOf(sandbox) === template)
    .filter(matches);
  const keyOf = (sandbox: Sandbox) => ({ time: startedAt(sandbox), id: sandboxIdOf(sandbox) });
  const sorted = all.toSorted((a, b) => compare(keyOf(a), keyOf(b), order));
  const page = isV1 ? { items: sorted } : pageOf(sorted, keyOf, { limit, nextToken, order });
  if ("nextToken" in page) void call.reply.header("x-next-token", page.nextToken);
  if (query.state.includes("running")) {
    const running = all.filter(({ spec }) => spec.paused !== true);
    void call.reply.header("x-total-running", running.length);
  }
  return call.reply.send(
    page.items.map((sandbox) => listedSandbox(sandbox, templateOf(service, sandbox), envdVersion)),
  );
}

function isListed(sandbox: Sandbox, states: readonly string[]): boolean {
  const state = stateOf(sandbox);
  if (state === "killing" || state === "ended" || !isForClients(sandbox)) return false;
  return states.includes(sandbox.spec.paused === true ? "paused" : "running");
}

function templateOf({ known }: E2b["service"], { metadata, spec }: Sandbox) {
  return spec.templateRef && known.template(`${metadata.namespace}/${spec.templateRef.name}`);
}

export async function fork(e2b: E2b, call: Call<Fork>): Promise<unknown> {
  const { timeout = defaultLife.v1, count = 1 } = call.body ?? {};
  const { caller, signal } = call;
  const lifeMilliseconds = lifeOf(e2b, timeout);
  checkSnapshotLimit(e2b.service, caller);
  const source = await e2b.sandboxOf(call);
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
    "error" in result ? { error: errorAnswer(result.error).body } : { sandbox: await e2b.accessTo(result.sandbox) },
  );
  return call.reply.code(201).send(await Promise.all(answers));
}

/**
 * The annotations with which gateways serve the ports of a client's sandbox.
 * @throws RametError `InvalidArgument`, naming the field
 */
export function trafficAnnotations({
  allowPublicTraffic,
  maskRequestHost,
  httpsPorts,
}: Pick<Network, "allowPublicTraffic" | "maskRequestHost" | "httpsPorts">): Record<string, string> {
  const host = maskRequestHost ?? "";
  if (host !== "" && requestHost(host, guestClientPort) === undefined) {
    throw new RametError("InvalidArgument", "network.maskRequestHost is not a host name, optionally with a port", {
      hint: "Write it as host.example.com or host.example.com:${PORT}",
    });
  }
  const ports = [...new Set(httpsPorts ?? [])];
  if (ports.includes(guestClientPort))
    throw new RametError(
      "InvalidArgument",
      `network.httpsPorts contains ${guestClientPort}, which is not the sandbox's`,
    );
  return {
    ...(allowPublicTraffic !== false && { [annotations.publicPorts]: "*" }),
    ...(host !== "" && { [annotations.requestHost]: host }),
    ...(ports.length > 0 && { [annotations.httpsPorts]: ports.join(",") }),
  };
}
