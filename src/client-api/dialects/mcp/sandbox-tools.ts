import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import { needs } from "../../keys/needs.ts";
import { forkSandbox } from "../../service/clone-sandbox.ts";
import { createSandbox } from "../../service/create-sandbox.ts";
import { isForClients } from "../../service/find-sandbox.ts";
import { takeSnapshot, withinSandboxLimit } from "../../service/key-limits.ts";
import { killSandbox } from "../../service/lifecycle.ts";
import {
  SandboxName,
  type ToolParts,
  addTool,
  runningSandbox,
  sandboxOf,
  sandboxView,
  waitMilliseconds,
} from "./tool.ts";

const defaultLifeSeconds = 3600;
const mostForks = 10;
const mostListed = 200;

/** Creates, lists, forks and deletes sandboxes. */
export function sandboxTools(parts: ToolParts): void {
  const { service, actor, maxLifeSeconds } = parts;
  const { namespace, key: owner } = actor;
  const life = {
    lifetime_seconds: z
      .number()
      .int()
      .min(1)
      .max(maxLifeSeconds)
      .default(defaultLifeSeconds)
      .describe("How long it lives, unless it is deleted before"),
    when_over: z
      .enum(["kill", "pause"])
      .default("kill")
      .describe("What happens then; a paused sandbox keeps its memory"),
  };
  addTool(parts, {
    name: "create_sandbox",
    description:
      "Create an isolated sandbox, and wait until it is ready. Call it with a template or set to start fresh, or with a snapshot to continue from its memory and files.",
    input: {
      source: z
        .string()
        .min(1)
        .max(300)
        .describe("A template, a set, a named snapshot (name or name@version) or a snapshot id"),
      environment: z.record(z.string().max(200), z.string().max(32_768)).optional().describe("Environment variables"),
      ...life,
    },
    hints: { readOnlyHint: false, destructiveHint: false },
    needs: needs.create,
    call: async ({ source, environment, lifetime_seconds, when_over }, signal) => {
      const given = {
        namespace,
        owner,
        source,
        onTimeout: when_over,
        lifeMilliseconds: lifetime_seconds * 1000,
        annotations: {},
        ...defined({ environment }),
        timeoutMilliseconds: waitMilliseconds,
        signal,
      };
      const sandbox = await withinSandboxLimit(service, actor, ([requestId = ""]) =>
        createSandbox(service, { ...given, requestId }),
      );
      return { json: sandboxView(parts, sandbox) };
    },
  });
  addTool(parts, {
    name: "list_sandboxes",
    description: "List the sandboxes, with their states.",
    input: {},
    hints: { readOnlyHint: true },
    needs: needs.list,
    call: () => {
      const newest = service.known.sandboxesIn(namespace).map((sandbox) => service.writes.latest(sandbox));
      const all = newest.filter(isForClients);
      const sandboxes = all.slice(0, mostListed).map((sandbox) => sandboxView(parts, sandbox));
      return Promise.resolve({ json: { sandboxes, ...(all.length > mostListed && { of: all.length }) } });
    },
  });
  addTool(parts, {
    name: "fork",
    description:
      "Clone a running sandbox with its memory, processes and files. The source keeps running; each clone continues on its own.",
    input: { sandbox: SandboxName, count: z.number().int().min(1).max(mostForks).default(1), ...life },
    hints: { readOnlyHint: false, destructiveHint: false },
    needs: [...needs.create, ...needs.capture],
    call: async ({ sandbox: text, count, lifetime_seconds, when_over }, signal) => {
      takeSnapshot(service, actor);
      const source = await runningSandbox(parts, text, signal);
      const given = {
        owner,
        onTimeout: when_over,
        lifeMilliseconds: lifetime_seconds * 1000,
        timeoutMilliseconds: waitMilliseconds,
        signal,
      };
      const fork = (requestIds: readonly string[]) => forkSandbox(service, source, { ...given, requestIds });
      const results = await withinSandboxLimit(service, actor, fork, { count });
      const clones = results.flatMap((result) => ("object" in result ? [sandboxView(parts, result.object)] : []));
      const errors = results.flatMap((result) => ("failure" in result ? [result.failure] : []));
      if (clones.length === 0 && errors[0] !== undefined) throw errors[0];
      return { json: { clones, ...(errors.length > 0 && { failed: errors.map((error) => error.describe()) }) } };
    },
  });
  addTool(parts, {
    name: "kill_sandbox",
    description: "Delete a sandbox with everything in it. Its snapshots stay.",
    input: { sandbox: SandboxName },
    hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    needs: needs.kill,
    call: async ({ sandbox: text }, signal) => {
      const sandbox = await sandboxOf(parts, text, signal);
      await killSandbox(service, sandbox, signal);
      return { json: { deleted: sandbox.metadata.name } };
    },
  });
}
