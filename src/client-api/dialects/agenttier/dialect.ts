import type { FastifyReply, FastifyRequest } from "fastify";
import { RametError } from "../../../base/errors.ts";
import { serveRoutes } from "../../routes/serve-routes.ts";
import type { Dialect } from "../../server.ts";
import { findSandboxByName } from "../../service/find-sandbox.ts";
import { type AgentTier, type AgentTierOptions, runningGuest } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { agentTierRoutes, healthRoutes, prefix } from "./routes.ts";
import { servePreviews } from "./serve-previews.ts";
import { serveTerminals } from "./serve-terminals.ts";

/** The HTTP API of AgentTier, as far as its Python client and command line use it. */
export function agentTierDialect(options: AgentTierOptions): Dialect {
  const agentTier = { ...options, ...helpers(options) };
  return {
    register: (server) => {
      serveRoutes(server, healthRoutes, agentTier, options);
      serveTerminals(server, options);
      void server.register(
        (instance, _options, done) => {
          instance.setErrorHandler((error, request, reply) => {
            answerError(request, reply, error);
          });
          instance.setNotFoundHandler((request, reply) => {
            const path = request.url.split("?")[0] ?? "";
            const message = `There is no ${request.method} ${path.slice(0, 200)}`;
            answerError(request, reply, new RametError("NotFound", message));
          });
          servePreviews(instance, agentTier);
          serveRoutes(instance, agentTierRoutes, agentTier, options);
          done();
        },
        { prefix },
      );
    },
  };
}

function helpers(options: AgentTierOptions): Pick<AgentTier, "sandboxOf" | "guestFor"> {
  const sandboxOf: AgentTier["sandboxOf"] = ({ request, caller, signal }) => {
    const { id = "" } = request.params as { id?: string };
    return findSandboxByName(options.service, caller.namespace, id, signal);
  };
  return {
    sandboxOf,
    guestFor: async (call) => runningGuest(options, await sandboxOf(call), call.signal),
  };
}

function answerError(request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  const { status, body } = errorAnswer(error);
  if (status >= 500) request.log.error({ id: request.id, err: error }, "a request failed");
  void reply.code(status).send(body);
}
