import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { CallToolResult, ToolAnnotations } from "@modelcontextprotocol/sdk/types.js";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { Caller, Need } from "../../keys/callers.ts";
import { needs } from "../../keys/needs.ts";
import { findSandbox, sandboxIdOf, uidOf } from "../../service/find-sandbox.ts";
import { connectSandbox, currentState } from "../../service/lifecycle.ts";
import type { ServiceParts } from "../../service/parts.ts";

/** The objects that the tools of one client need. */
export interface ToolParts {
  server: McpServer;
  service: ServiceParts;
  actor: Actor;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

export interface Tool<Input extends z.ZodRawShape> {
  name: string;
  description: string;
  input: Input;
  hints: ToolAnnotations;
  needs: readonly Need[];
  /** @returns the result, as JSON, and how an agent reads it if that is not the JSON */
  call: (input: z.infer<z.ZodObject<Input>>, signal: AbortSignal) => Promise<ToolResult>;
}

interface ToolResult {
  json: Record<string, unknown>;
  /** @default the JSON */
  text?: string;
}

/** Adds a tool. Errors become results that name the code and the hint, so that an agent can act on them. */
export function addTool<Input extends z.ZodRawShape>({ server, actor }: ToolParts, tool: Tool<Input>): void {
  const { name, description, input, hints, needs, call } = tool;
  const run = async (given: z.infer<z.ZodObject<Input>>, { signal }: { signal: AbortSignal }) => {
    try {
      await actor.require(...needs);
      const { json, text = JSON.stringify(json, null, 2) } = await call(given, signal);
      return { content: [{ type: "text", text }], structuredContent: json } satisfies CallToolResult;
    } catch (error) {
      return failure(error);
    }
  };
  const config = { description, inputSchema: input as z.ZodRawShape, annotations: hints };
  server.registerTool(name, config, run as Parameters<typeof server.registerTool>[2]);
}

function failure(error: unknown): CallToolResult {
  const { code, message, hint, retryable } = RametError.from(error);
  const text = [`${message} [${code}]`, ...(hint === undefined ? [] : [hint])].join("\n");
  const json = { error: defined({ code, message, hint, retryable }) };
  return { isError: true, content: [{ type: "text", text }], structuredContent: json };
}

/** Who calls tools: the user of a kubeconfig, or a client with an API key. */
export interface Actor extends Pick<Caller, "namespace" | "limits"> {
  /** Whom created sandboxes belong to, in the annotation `owner`. */
  key: string;
  /** @throws RametError `Forbidden` */
  require(...needs: readonly Need[]): Promise<void>;
  /** A client of the sandbox's guest. @throws RametError such as `Forbidden` or `SandboxNotReady` */
  guest(sandbox: Sandbox, options: GuestOptions): Promise<GuestClient>;
}

interface GuestOptions {
  /** @default the entrypoint's user */
  user?: string | undefined;
  signal: AbortSignal;
}

/** Clients wait 60 seconds by default. */
export const waitMilliseconds = 55_000;

export const SandboxName = z.string().min(1).max(130).describe("The name or the id of the sandbox");

/** @throws RametError `NotFound`, also for sandboxes of other namespaces */
export function sandboxOf({ service, actor }: ToolParts, text: string, signal: AbortSignal): Promise<Sandbox> {
  const { namespace } = actor;
  return findSandbox(service, namespace, uidOf(text) === undefined ? `${namespace}--${text}` : text, signal);
}

/** The same, but resumes the sandbox if it is paused. */
export async function runningSandbox(parts: ToolParts, text: string, signal: AbortSignal): Promise<Sandbox> {
  const { service, actor } = parts;
  const sandbox = await sandboxOf(parts, text, signal);
  const state = currentState(service, sandbox);
  if (state !== "paused" && state !== "pausing") return sandbox;
  await actor.require(...needs.change);
  const waiting = { timeoutMilliseconds: waitMilliseconds, signal };
  const connected = await connectSandbox(service, sandbox, { ...waiting, lifeMilliseconds: resumedMilliseconds });
  return connected.sandbox;
}

const resumedMilliseconds = 3_600_000;

/** Returns a sandbox as tools report it. */
export function sandboxView({ service }: ToolParts, sandbox: Sandbox) {
  const { metadata, spec, status } = sandbox;
  const state = currentState(service, sandbox);
  const source = metadata.annotations?.[annotations.clientTemplate] ?? status?.ramet?.restoredFrom;
  const endsAt = spec.pauseTime ?? spec.shutdownTime;
  return {
    name: metadata.name,
    id: sandboxIdOf(sandbox),
    state,
    created: metadata.creationTimestamp,
    ...defined({ source }),
    ...(endsAt !== undefined && { ends: endsAt, thenIs: spec.pauseTime === undefined ? "deleted" : "paused" }),
    ...(state === "ended" && status?.message !== undefined && { message: status.message }),
  };
}
