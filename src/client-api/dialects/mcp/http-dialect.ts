import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { RametError } from "../../../base/errors.ts";
import { serverAccessToken } from "../../../cell/client/cell-token.ts";
import { gatewayGuest, type GatewayCredentials } from "../../../cell/client/gateway-guest.ts";
import type { Caller, Callers } from "../../keys/callers.ts";
import { type Access, callerOf, withKey, whenOver } from "../../routes/admission.ts";
import { messageWithHint, unreadableStatus } from "../../routes/serve-routes.ts";
import type { Dialect } from "../../server.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import type { Actor } from "./tool.ts";
import { mcpServer, type McpOptions } from "./mcp-server.ts";

export interface McpHttpOptions extends Omit<McpOptions, "actor"> {
  callers: Callers;
  /** Reads the secret of the guests' tokens. */
  guestSecret: () => Promise<Buffer>;
  /** Finds the gateway, through which sandboxes are reached. */
  gateway: () => Promise<GatewayCredentials>;
  /** Names of this server in requests, besides those of its own machine. */
  hosts: readonly string[];
}

/** A file of `write_file` in JSON. */
const bodyLimitBytes = 4 * 1024 * 1024;

/**
 * The Model Context Protocol over streamable HTTP, for clients with API keys. It keeps no sessions: each request has all that it
 * needs, so any replica can answer it.
 */
export function mcpHttpDialect(options: McpHttpOptions): Dialect {
  return {
    register: (server) => {
      server.setErrorHandler((error, request, reply) => {
        answerError(request, reply, error);
      });
      const config = { access: accessOf(options) };
      server.post("/mcp", { bodyLimit: bodyLimitBytes, config }, (request, reply) => answer(options, request, reply));
      server.route({
        method: ["GET", "DELETE"],
        url: "/mcp",
        config,
        handler: (_request, reply) => {
          void reply.header("allow", "POST");
          return reply.code(405).send(jsonRpcError("This server has no sessions: send POST requests"));
        },
      });
    },
  };
}

function accessOf({ callers, hosts }: McpHttpOptions): Access {
  const access = withKey(callers);
  return async (request, reply) => {
    if (!isForHosts(request.headers, hosts))
      throw new RametError("Forbidden", "The headers Host and Origin do not name this server", {
        hint: "Start it with --allowed-host for each name that its clients use",
      });
    return access(request, reply);
  };
}

async function answer(options: McpHttpOptions, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  // Its calls would count as one. The protocol has none since 2025-06-18.
  if (Array.isArray(request.body))
    throw new RametError("InvalidArgument", "Batches of messages are not supported", { hint: "Send one at a time" });
  const server = mcpServer({ ...options, actor: actorOf(options, callerOf(request)) });
  const transport = new WebStandardStreamableHTTPServerTransport();
  whenOver(reply, () => void server.close());
  await server.connect(transport);
  const { host = "" } = request.headers;
  const headers = Object.entries(request.headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((each): [string, string] => [name, each]),
  );
  const web = new Request(`http://${host}${request.url}`, { method: "POST", headers });
  return reply.send(await transport.handleRequest(web, { parsedBody: request.body }));
}

function actorOf({ callers, guestSecret, gateway, service }: McpHttpOptions, caller: Caller): Actor {
  return {
    ...caller,
    require: (...needs) => callers.require(caller, ...needs),
    guest: async (sandbox, { user, signal }) =>
      gatewayGuest({
        gateway: await gateway(),
        accessToken: serverAccessToken(await guestSecret(), sandbox.metadata.uid),
        sandboxId: sandboxIdOf(sandbox),
        isKnownReady: true,
        clock: service.clock,
        user,
        signal,
      }),
  };
}

const statuses: Partial<Record<ErrorCode, number>> = {
  InvalidArgument: 400,
  Unauthorized: 401,
  Forbidden: 403,
  TooManyRequests: 429,
  Unavailable: 503,
};

function answerError(request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  const known = RametError.from(error);
  const { code } = known;
  const status = statuses[code] ?? unreadableStatus(error) ?? 500;
  if (status >= 500) request.log.error({ id: request.id, err: error }, "a request failed");
  if (status === 401) void reply.header("www-authenticate", "Bearer");
  const message = status >= 500 && code === "Internal" ? "The request failed" : messageWithHint(known);
  void reply.code(status).send(jsonRpcError(message));
}

function jsonRpcError(message: string): object {
  return { jsonrpc: "2.0", error: { code: -32_000, message }, id: null };
}

/** The names that a server at a loopback address has for its own machine. */
const loopback = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Whether a request is meant for this server. A web page can let a browser send requests to any address, also under a name of its
 * own (DNS rebinding): the browser then names the page in `Origin`, and the page's domain in `Host`.
 * @param hosts names of the server, besides those of its own machine
 */
export function isForHosts(
  headers: { host?: string | undefined; origin?: string | undefined },
  hosts: readonly string[],
) {
  const names = new Set([...loopback, ...hosts.map(inUrls)]);
  const host = hostOf(`http://${headers.host ?? ""}`);
  if (host === undefined || !names.has(host)) return false;
  const { origin } = headers;
  if (origin === undefined) return true;
  const page = hostOf(origin);
  return page !== undefined && names.has(page);
}

/** As a URL has it: in lower case, and an IPv6 address in brackets. */
function inUrls(name: string): string {
  return name.includes(":") && !name.startsWith("[") ? `[${name}]` : name.toLowerCase();
}

function hostOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}
