import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { CallToolResult, ToolAnnotations } from "@modelcontextprotocol/sdk/types.js";
import type * as z from "zod";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { Caller, Need } from "../../keys/callers.ts";
import type { ServiceParts } from "../../service/parts.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";

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

export interface ToolResult {
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
