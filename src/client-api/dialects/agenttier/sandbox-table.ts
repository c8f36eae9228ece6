import * as z from "zod";
import { killSandbox } from "../../service/lifecycle.ts";
import { needs } from "../../keys/needs.ts";
import { CreatedSandbox, Ran, SandboxSummary, StartedClone } from "./sandbox-view.ts";
import { type AgentTierRoute, route } from "./call.ts";
import { exec } from "./exec.ts";
import { clone, create, list, resume, stop, summaryOf } from "./sandbox-calls.ts";
import { Clone, Exec, ListSandboxes, NewSandbox } from "./schemas.ts";

export const sandboxRoutes: readonly AgentTierRoute[] = [
  route({
    method: "POST",
    path: "/sandboxes",
    summary: "Creates a sandbox from a template, a set or a snapshot, and does not wait for it.",
    needs: [...needs.create, ...needs.enter],
    body: NewSandbox,
    answers: { 201: CreatedSandbox },
    handle: create,
  }),
  route({
    method: "GET",
    path: "/sandboxes",
    summary: "Lists the sandboxes of the namespace, newest first.",
    needs: needs.list,
    query: ListSandboxes,
    answers: { 200: z.object({ sandboxes: z.array(SandboxSummary) }) },
    handle: (agentTier, call) => Promise.resolve(list(agentTier, call)),
  }),
  route({
    method: "GET",
    path: "/sandboxes/:id",
    summary: "Describes a sandbox.",
    needs: needs.read,
    answers: { 200: SandboxSummary },
    handle: async (agentTier, call) => summaryOf(agentTier, await agentTier.sandboxOf(call)),
  }),
  route({
    method: "DELETE",
    path: "/sandboxes/:id",
    summary: "Deletes a sandbox with everything in it. The checkpoints of clones stay.",
    needs: needs.kill,
    answers: { 204: null },
    handle: async (agentTier, call) => {
      await killSandbox(agentTier.service, await agentTier.sandboxOf(call), call.signal);
      return call.reply.code(204).send();
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:id/stop",
    summary: "Pauses a running sandbox with its memory and files.",
    needs: needs.change,
    answers: { 200: z.object({ status: z.literal("stopping") }) },
    handle: async (agentTier, call) => {
      await stop(agentTier, call);
      return { status: "stopping" };
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:id/resume",
    summary: "Resumes a stopped sandbox, and does not wait for it.",
    needs: needs.change,
    answers: { 200: z.object({ status: z.literal("resuming") }) },
    handle: async (agentTier, call) => {
      await resume(agentTier, call);
      return { status: "resuming" };
    },
  }),
  route({
    method: "POST",
    path: "/sandboxes/:id/clone",
    summary: "Starts a clone of a running or stopped sandbox, and does not wait for it.",
    needs: [...needs.create, ...needs.enter, ...needs.capture],
    body: Clone,
    answers: { 202: StartedClone },
    handle: clone,
  }),
  route({
    method: "POST",
    path: "/sandboxes/:id/exec",
    summary: "Runs a command by /bin/sh, and returns its output.",
    needs: needs.enter,
    body: Exec,
    answers: { 200: Ran },
    handle: async (agentTier, call) => {
      const { command, timeout } = call.body;
      return exec(await agentTier.guestFor(call), { command, timeoutSeconds: timeout, signal: call.signal });
    },
  }),
];
