import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { RametError } from "../../base/errors.ts";
import type { Caller, Callers, RequestRates } from "../keys/callers.ts";
import type { Route } from "./route.ts";

export interface Admission {
  callers: Callers;
  rates: RequestRates;
}

/** Serves routes to authenticated clients that have the rights which a route needs. */
export function serveRoutes<Env>(
  server: FastifyInstance,
  routes: readonly Route<Env>[],
  env: Env,
  admission: Admission,
): void {
  void server.register((streams, _options, done) => {
    streams.removeAllContentTypeParsers();
    streams.addContentTypeParser("*", (_request, body, parsed) => {
      parsed(null, body);
    });
    for (const route of routes) if (route.bodyType !== undefined) serveRoute(streams, route, env, admission);
    done();
  });
  for (const route of routes) if (route.bodyType === undefined) serveRoute(server, route, env, admission);
}

function serveRoute<Env>(
  server: FastifyInstance,
  { method, path: url, needs, bodyLimitBytes, serve }: Route<Env>,
  env: Env,
  admission: Admission,
): void {
  server.route({
    method,
    url,
    ...(bodyLimitBytes !== undefined && { bodyLimit: bodyLimitBytes, config: { isUpload: true } }),
    handler: async (request, reply) => {
      const caller = needs === "public" ? nobody : await admit(admission, request, reply);
      if (needs !== "public") await admission.callers.require(caller, ...needs);
      return serve(env, { request, reply, caller, signal: untilClosed(reply) });
    },
  });
}

/** Who calls a public route. */
const nobody: Caller = {
  namespace: "",
  serviceAccount: "",
  key: "",
  user: { user: "system:anonymous", groups: ["system:unauthenticated"] },
  limits: { sandboxes: 0, requestsPerSecond: 0, snapshotBytes: 0 },
};

/** @throws RametError `Unauthorized`; `TooManyRequests` above the limit of the key */
export async function admit(
  { callers, rates }: Admission,
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
export function untilClosed({ raw }: FastifyReply): AbortSignal {
  const closed = new AbortController();
  raw.once("close", () => {
    closed.abort();
  });
  return closed.signal;
}
