import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { defined } from "../../../base/defined.ts";
import { hopByHopHeaders } from "../../../base/http.ts";
import { callerOf, withKey, untilClosed } from "../../routes/admission.ts";
import { serveStreams } from "../../routes/serve-routes.ts";
import { needs } from "../../keys/needs.ts";
import type { AgentTier } from "./call.ts";
import { forwardedPort } from "./port-routes.ts";

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

/** The limit of one request. Its body is a stream, so nothing of it is kept. */
const mostBodyBytes = 1024 ** 3;

/**
 * Proxies requests to the forwarded ports of sandboxes. It is not in the table of routes, because each method has it, and what it
 * answers is the sandbox's.
 */
export function servePreviews(server: FastifyInstance, agentTier: AgentTier): void {
  serveStreams(server, (instance) => {
    for (const url of ["/sandboxes/:id/preview/:port", "/sandboxes/:id/preview/:port/*"]) {
      instance.route({
        method: [...methods],
        url,
        exposeHeadRoute: false,
        bodyLimit: mostBodyBytes,
        config: { access: withKey(agentTier.callers, ...needs.enter), isLong: true, isStreamed: true },
        handler: (request, reply) => preview(agentTier, request, reply),
      });
    }
  });
}

async function preview(agentTier: AgentTier, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { guests } = agentTier;
  const caller = callerOf(request);
  const signal = untilClosed(reply);
  const params = request.params as Record<string, string>;
  const { sandbox, port } = await forwardedPort(agentTier, { params, caller, signal });
  const body = request.body as Readable | undefined;
  const answer = await guests.request(sandbox, port, {
    method: request.method as (typeof methods)[number],
    path: request.url.replace(/^.*?\/preview\/\d+\/?/, "/"),
    headers: forSandbox(request.headers),
    ...defined({ body }),
    signal,
  });
  for (const [name, value] of Object.entries(endToEnd(ofPage(answer.headers)))) void reply.header(name, value);
  // A page of a sandbox has no origin, and says nothing about this host. Several such headers apply together.
  void reply.header("content-security-policy", [answer.headers["content-security-policy"] ?? [], pagePolicy].flat());
  return reply.code(answer.statusCode ?? 502).send(answer);
}

const pagePolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/** Without what would apply to this host, which has the other previews and the API. */
function ofPage({
  "set-cookie": _,
  "clear-site-data": __,
  "strict-transport-security": ___,
  ...headers
}: IncomingHttpHeaders): IncomingHttpHeaders {
  return headers;
}

/** Without the API key, which is none of the sandbox's business. */
function forSandbox({ "x-api-key": key, authorization, ...headers }: IncomingHttpHeaders): Record<string, string> {
  const isForSandbox = key !== undefined && authorization !== undefined;
  return endToEnd({ ...headers, ...(isForSandbox && { authorization }) }) as Record<string, string>;
}

/** Headers that the server sets or has answered. */
const ownHeaders: ReadonlySet<string> = new Set(["host", "expect"]);

function endToEnd(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      hopByHopHeaders.has(name) || ownHeaders.has(name) || value === undefined ? [] : [[name, value]],
    ),
  );
}
