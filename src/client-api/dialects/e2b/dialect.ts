import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { RametError } from "../../../base/errors.ts";
import { guestAccessToken, trafficAccessToken } from "../../../cell/client/cell-token.ts";
import type { Caller } from "../../keys/callers.ts";
import type { Dialect } from "../../server.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import type { E2b, E2bOptions } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";
import { clientId, templateIdOf } from "./sandbox-view.ts";
import { snapshotRoutes } from "./snapshot-routes.ts";

/** The HTTP API of E2B, as far as its SDKs use it. */
export function e2bDialect(options: E2bOptions): Dialect {
  return {
    register: (server) => {
      server.setErrorHandler((error, request, reply) => {
        answerError(request, reply, error);
      });
      server.setNotFoundHandler((request, reply) => {
        const path = request.url.split("?")[0] ?? "";
        answerError(request, reply, new RametError("NotFound", `There is no ${request.method} ${path.slice(0, 200)}`));
      });
      server.get("/health", (_request, reply) => reply.code(204).send());
      const e2b = { ...options, ...helpers(server, options) };
      sandboxRoutes(e2b);
      snapshotRoutes(e2b);
    },
  };
}

function helpers(server: FastifyInstance, options: E2bOptions): Pick<E2b, "route" | "sandboxOf" | "accessTo"> {
  const { service, callers, guestSecret, domain, envdVersion } = options;
  return {
    route: (method, url, needs, handle) => {
      server.route({
        method,
        url,
        handler: async (request, reply) => {
          const caller = await admit(options, request, reply);
          await callers.require(caller, ...needs);
          return handle({ request, reply, caller, signal: untilClosed(reply) });
        },
      });
    },
    sandboxOf: ({ request, caller, signal }) => {
      const { sandboxID = "" } = request.params as { sandboxID?: string };
      return findSandbox(service, caller.namespace, sandboxID, signal);
    },
    accessTo: async (sandbox) => {
      const secret = await guestSecret();
      const { uid } = sandbox.metadata;
      return {
        templateID: templateIdOf(sandbox),
        sandboxID: sandboxIdOf(sandbox),
        clientID: clientId,
        envdVersion,
        envdAccessToken: guestAccessToken(secret, uid),
        trafficAccessToken: trafficAccessToken(secret, uid),
        domain: domain ?? null,
      };
    },
  };
}

/** @throws RametError `Unauthorized`; `TooManyRequests` above the limit of the key */
async function admit(
  { callers, rates }: E2bOptions,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): Promise<Caller> {
  const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
  const caller = await callers.authenticate([headers["x-api-key"]].flat()[0] ?? bearer);
  const waitSeconds = rates.take(caller.key, caller.limits.requestsPerSecond);
  if (waitSeconds === 0) return caller;
  void reply.header("retry-after", waitSeconds);
  throw new RametError("TooManyRequests", `The API key ${caller.key} may send fewer requests per second`, {
    retryable: true,
  });
}

/** Also aborts after the answer, when nothing waits any more. */
function untilClosed({ raw }: FastifyReply): AbortSignal {
  const closed = new AbortController();
  raw.once("close", () => {
    closed.abort();
  });
  return closed.signal;
}

function answerError(request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  const { status, body } = errorAnswer(error);
  if (status >= 500) request.log.error({ id: request.id, err: error }, "a request failed");
  void reply.code(status).send(body);
}
