import type { FastifyReply, FastifyRequest } from "fastify";
import { RametError } from "../../../base/errors.ts";
import { guestAccessToken, trafficAccessToken } from "../../../cell/client/cell-token.ts";
import { serveRoutes } from "../../routes/serve-routes.ts";
import type { Dialect } from "../../server.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import type { E2b, E2bOptions } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { e2bRoutes } from "./routes.ts";
import { clientId, templateIdOf } from "./sandbox-view.ts";
import { serveUploads } from "./serve-uploads.ts";

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
      serveRoutes(server, e2bRoutes, { ...options, ...helpers(options) }, options);
      serveUploads(server, options);
    },
  };
}

function helpers({ service, guestSecret, domain, envdVersion }: E2bOptions): Pick<E2b, "sandboxOf" | "accessTo"> {
  return {
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

function answerError(request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  const { status, body } = errorAnswer(error);
  if (status >= 500) request.log.error({ id: request.id, err: error }, "a request failed");
  void reply.code(status).send(body);
}
