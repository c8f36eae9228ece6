import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import * as z from "zod";
import { parseDuration } from "../../../base/duration.ts";
import { RametError } from "../../../base/errors.ts";
import { readBody } from "../../../base/http.ts";
import { needs } from "../../keys/needs.ts";
import { AgentInput, runAgent } from "./agent-process.ts";
import { type AgentTierRoute, guestFor, route, sandboxOf } from "./call.ts";
import { agentConfigOf, configure } from "./configure.ts";
import { Cancel, Configure, Invoke } from "./schemas.ts";
import { type Sent, sendEvents } from "../../routes/sse.ts";

/** Larger files of an agent are uploaded before. */
const configureBytes = 4 * 1024 * 1024;
/** As in AgentTier. */
const mostInputBytes = 16 * 1024 * 1024;
const defaultInvokeMilliseconds = 30 * 60_000;
const longestInvokeMilliseconds = 24 * 3_600_000;

const Events = z.string().describe("Server-sent events.");

export const agentRoutes: readonly AgentTierRoute[] = [
  route("POST", "/sandboxes/:id/configure", {
    summary:
      "Writes files, runs an installation and sets the entrypoint. Answers with the events log, error and result.",
    needs: [...needs.enter, ...needs.change],
    bodyLimitBytes: configureBytes,
    body: Configure,
    answerType: "text/event-stream",
    answers: { 200: Events },
    handle: async (agentTier, call) => {
      const { service } = agentTier;
      const guest = await guestFor(agentTier, call);
      const events = configure(service, await sandboxOf(agentTier, call), { ...call, guest });
      return sendEvents(call.reply, events, service.clock);
    },
  }),
  route("GET", "/sandboxes/:id/configure/install-log", {
    summary: "Returns the end of what the last installation has printed.",
    needs: needs.read,
    answerType: "text/plain",
    answers: { 200: z.string() },
    handle: async (agentTier, call) => {
      const sandbox = await sandboxOf(agentTier, call);
      const config = agentConfigOf(sandbox);
      if (config === undefined)
        throw new RametError("NotFound", `The sandbox ${sandbox.metadata.name} was not configured`);
      void call.reply.type("text/plain; charset=utf-8");
      return config.installLog;
    },
  }),
  route("POST", "/sandboxes/:id/invoke", {
    summary: "Runs the entrypoint with the body as its input. Answers with the events start, log and exit.",
    needs: needs.enter,
    query: Invoke,
    bodyLimitBytes: mostInputBytes,
    isLong: true,
    bodyType: "application/octet-stream",
    answerType: "text/event-stream",
    answers: { 200: Events },
    handle: async (agentTier, call) => {
      const { query, request, reply, signal } = call;
      const { prompt = "" } = query;
      const { clock } = agentTier.service;
      const sandbox = await sandboxOf(agentTier, call);
      const guest = await guestFor(agentTier, call);
      const timeoutMilliseconds = timeoutOf(query.timeout);
      const entrypoint = agentConfigOf(sandbox)?.entrypoint ?? [];
      if (entrypoint.length === 0) {
        void reply.code(424);
        return { error: `The sandbox ${sandbox.metadata.name} has no entrypoint: configure it first` };
      }
      const stdin = await inputOf(request, prompt);
      const argv = prompt === "" ? entrypoint : [...entrypoint, `--prompt=${prompt}`];
      const invokeId = randomUUID().replaceAll("-", "").slice(0, 24);
      const run = { argv, stdin, tag: tagOf(invokeId), timeoutMilliseconds, signal };
      async function* events(): AsyncGenerator<Sent> {
        const startedAt = clock.monotonicMilliseconds();
        yield { event: "start", data: { invokeId, startedAt: clock.now().getTime() } };
        const { exitCode, reason } = yield* runAgent(guest, run);
        const durationMs = Math.round(clock.monotonicMilliseconds() - startedAt);
        yield { event: "exit", data: { invokeId, exitCode, durationMs, reason } };
      }
      return sendEvents(reply, events(), clock);
    },
  }),
  route("POST", "/sandboxes/:id/invoke/cancel", {
    summary: "Ends a running invocation.",
    needs: needs.enter,
    body: Cancel,
    answers: { 204: null },
    handle: async (agentTier, call) => {
      const { invokeId } = call.body;
      const guest = await guestFor(agentTier, call);
      const tag = tagOf(invokeId);
      // A program that has ended accepts signals for a while.
      const running = await guest.listProcesses();
      if (!running.some((each) => each.tag === tag))
        throw new RametError("NotFound", `The invocation ${invokeId} does not run`);
      await guest.signal({ tag }, "SIGTERM");
    },
  }),
];

/** The body, or the prompt if it is empty. It counts as held until the sandbox has it, and not until the agent ends. */
async function inputOf({ body, held }: FastifyRequest, prompt: string): Promise<AgentInput> {
  const stream = (body as Readable | undefined) ?? Readable.from([]);
  const input = await readBody(stream, mostInputBytes, "The input", "OutOfRange");
  held.hold(input.length);
  return new AgentInput(input.length > 0 ? input : Buffer.from(prompt), () => {
    held.hold(0);
  });
}

function tagOf(invokeId: string): string {
  return `invoke-${invokeId}`;
}

/** @throws RametError `InvalidArgument` */
function timeoutOf(text: string | undefined): number {
  if (text === undefined || text === "") return defaultInvokeMilliseconds;
  const given = parseDuration(text, "timeout");
  if (given <= 0) throw new RametError("InvalidArgument", `timeout is ${text}, and must be more than 0`);
  return Math.min(given, longestInvokeMilliseconds);
}
