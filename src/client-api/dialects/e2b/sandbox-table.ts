import * as z from "zod";
import { killSandbox, pauseSandbox, setLife, setNetwork } from "../../service/lifecycle.ts";
import { ForkResult, ListedSandbox, SandboxAccess, SandboxDetail } from "./answers.ts";
import { type E2bRoute, route } from "./call.ts";
import { needs } from "../../keys/needs.ts";
import { clientTokens, noNetwork, requestedNetwork } from "./requested-network.ts";
import { connect, create, defaultLife, fork, get, lifeOf, list, resume, timeoutMilliseconds } from "./sandbox-calls.ts";
import { Connect, Fork, ListSandboxes, NetworkUpdate, NewSandbox, Pause, Refresh, Resume, Timeout } from "./schemas.ts";

const createNeeds = [...needs.create, ...needs.enter];
const connectNeeds = [...needs.change, ...needs.enter];

export const sandboxRoutes: readonly E2bRoute[] = [
  route({
    method: "POST",
    path: "/sandboxes",
    summary: "Creates a sandbox from a template, a set or a snapshot, and waits until it serves.",
    needs: createNeeds,
    body: NewSandbox,
    answers: { 201: SandboxAccess },
    handle: (e2b, call) => create(e2b, call, defaultLife.v1),
  }),
  route({
    method: "POST",
    path: "/v2/sandboxes",
    summary: "The same, with a longer time by default.",
    needs: createNeeds,
    body: NewSandbox,
    answers: { 201: SandboxAccess },
    handle: (e2b, call) => create(e2b, call, defaultLife.v2),
  }),
  route({
    method: "GET",
    path: "/sandboxes",
    summary: "Lists the running sandboxes of the namespace.",
    needs: needs.list,
    query: ListSandboxes,
    answers: { 200: z.array(ListedSandbox) },
    handle: (e2b, call) => list(e2b, call, { isV1: true }),
  }),
  route({
    method: "GET",
    path: "/v2/sandboxes",
    summary: "Lists sandboxes page by page. The header X-Next-Token continues the list.",
    needs: needs.list,
    query: ListSandboxes,
    answers: { 200: z.array(ListedSandbox) },
    handle: (e2b, call) => list(e2b, call, { isV1: false }),
  }),
  route({
    method: "GET",
    path: "/sandboxes/:sandboxID",
    summary: "Describes a sandbox.",
    needs: needs.read,
    answers: { 200: SandboxDetail },
    handle: get,
  }),
  route({
    method: "DELETE",
    path: "/sandboxes/:sandboxID",
    summary: "Deletes a sandbox. Its snapshots stay.",
    needs: needs.kill,
    answers: { 204: null },
    handle: async (e2b, call) => {
      await killSandbox(e2b.service, await e2b.sandboxOf(call), call.signal);
      return call.reply.code(204).send();
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/pause",
    summary: "Pauses a sandbox, and waits until its state is stored.",
    needs: needs.change,
    body: Pause,
    answers: { 204: null },
    handle: async (e2b, call) => {
      const { memory = true } = call.body ?? {};
      const sandbox = await e2b.sandboxOf(call);
      await pauseSandbox(e2b.service, sandbox, { keepMemory: memory, timeoutMilliseconds, signal: call.signal });
      return call.reply.code(204).send();
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/connect",
    summary: "Resumes a paused sandbox, or extends the time of a running one.",
    needs: connectNeeds,
    body: Connect,
    answers: { 200: SandboxAccess, 201: SandboxAccess },
    handle: connect,
  }),
  route({
    method: "POST",
    path: "/v2/sandboxes/:sandboxID/connect",
    summary: "Resumes a paused sandbox, or extends the time of a running one.",
    needs: connectNeeds,
    body: Connect,
    answers: { 200: SandboxAccess, 201: SandboxAccess },
    handle: connect,
  }),
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/resume",
    summary: "Resumes a paused sandbox.",
    needs: connectNeeds,
    body: Resume,
    answers: { 201: SandboxAccess },
    handle: resume,
  }),
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/timeout",
    summary: "Sets the remaining time of a running sandbox.",
    needs: needs.change,
    body: Timeout,
    answers: { 204: null },
    handle: async (e2b, call) => {
      // 0 ends the time now.
      const lifeMilliseconds = lifeOf(e2b, call.body.timeout, 0);
      const sandbox = await e2b.sandboxOf(call);
      await setLife(e2b.service, sandbox, { lifeMilliseconds, extendOnly: false, signal: call.signal });
      return call.reply.code(204).send();
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/refreshes",
    summary: "Extends the time of a running sandbox.",
    needs: needs.change,
    body: Refresh,
    answers: { 204: null },
    handle: async (e2b, call) => {
      const { duration = defaultLife.v1 } = call.body ?? {};
      const lifeMilliseconds = lifeOf(e2b, Math.max(duration, defaultLife.v1));
      const sandbox = await e2b.sandboxOf(call);
      await setLife(e2b.service, sandbox, { lifeMilliseconds, extendOnly: true, signal: call.signal });
      return call.reply.code(204).send();
    },
  }),
  route({
    method: "PUT",
    path: "/sandboxes/:sandboxID/network",
    summary: "Replaces the egress rules and the credentials of a sandbox.",
    needs: needs.change,
    body: NetworkUpdate,
    answers: { 204: null },
    handle: async (e2b, call) => {
      const sandbox = await e2b.sandboxOf(call);
      const { allow_internet_access, ...network } = call.body;
      const tokens = clientTokens(sandbox);
      const requested = await requestedNetwork(e2b, call.caller, { allow_internet_access, network, tokens });
      await setNetwork(e2b.service, sandbox, {
        requested: { ...noNetwork, ...requested },
        timeoutMilliseconds,
        signal: call.signal,
      });
      return call.reply.code(204).send();
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:sandboxID/fork",
    summary: "Captures a running sandbox once, and creates clones of it.",
    needs: [...createNeeds, ...needs.capture],
    body: Fork,
    answers: { 201: z.array(ForkResult) },
    handle: fork,
  }),
];
