import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import { Slots } from "../../../base/slots.ts";
import { callerOf } from "../../routes/admission.ts";
import { openApiDocument } from "../../routes/openapi.ts";
import { documentRoute, unsupportedRoutes } from "../../routes/route.ts";
import { answerErrors, serveRoutes } from "../../routes/serve-routes.ts";
import type { Dialect } from "../../server.ts";
import {
  envelope,
  ErrorBody,
  errorAnswer,
  olderPrefix,
  prefix,
  route,
  type Sandbox0,
  type Sandbox0Route,
  success,
} from "./call.ts";
import { contextRoutes } from "./context-routes.ts";
import { eventRoutes } from "./event-routes.ts";
import { fileRoutes } from "./file-routes.ts";
import { networkRoutes } from "./network-routes.ts";
import { observeRoutes } from "./observe-routes.ts";
import { quotaRoutes } from "./quota-routes.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";
import { serviceRoutes } from "./service-routes.ts";
import { snapshotRoutes } from "./snapshot-routes.ts";
import { sandbox0Sockets } from "./sockets.ts";
import { templateRoutes } from "./template-routes.ts";

/** The HTTP API of Sandbox0, as far as its clients for Python and JavaScript use it. */
export function sandbox0Dialect(shared: Omit<Sandbox0, "watches">): Dialect {
  // Each reads once a second.
  const sandbox0 = { ...shared, watches: new Slots(50) };
  return {
    pathOf,
    refusalAt: (path, error) => (path.startsWith(`${prefix}/`) ? errorAnswer(error) : undefined),
    register: (server) => {
      const register = (instance: FastifyInstance, _options: object, done: () => void): void => {
        answerErrors(instance, errorAnswer);
        instance.addHook("preHandler", (request, _reply, next) => {
          next(teamProblem(request));
        });
        serveRoutes(instance, sandbox0Routes, sandbox0);
        done();
      };
      for (const each of [prefix, olderPrefix]) void server.register(register, { prefix: each });
      for (const socket of sandbox0Sockets(sandbox0)) server.webSockets.add(socket);
    },
  };
}

/** A key has one team: its namespace. */
function teamProblem(request: FastifyRequest): RametError | undefined {
  const team = request.headers["x-team-id"];
  const { namespace } = callerOf(request);
  if (team === undefined || namespace === "" || team === namespace) return undefined;
  return new RametError("Forbidden", "The key is of another team than X-Team-ID", {
    hint: "Send no X-Team-ID, or a key of that namespace",
  });
}

/** Paths of other dialects, which accept keys of each format. */
const others = /^\/(?:mcp|ramet|internal|sandbox0)(?:[/?]|$)/;

/**
 * The path of a request below the prefix, if it is one of a Sandbox0 client: by the format of its key, or by the host. The clients send
 * keys as bearer tokens, those of E2B and AgentTier in X-API-Key too.
 */
function pathOf({ url = "/", headers }: IncomingMessage): string | undefined {
  if (others.test(url)) return undefined;
  const hasKey = headers["x-api-key"] === undefined && /^Bearer s0_/i.test(headers.authorization ?? "");
  const isOwn = hasKey || (headers.host ?? "").startsWith("sandbox0.") || /^\/metadata(?:\?|$)/.test(url);
  return isOwn ? `${prefix}${url}` : undefined;
}

const ofSandbox = "/api/v1/sandboxes/:id";

/** Routes of Sandbox0's API that Ramet does not have, by what to do instead. */
const unsupported = unsupportedRoutes({
  "Sessions are not supported, because the output of a program is not kept after its end: use contexts": [
    `GET ${ofSandbox}/sessions`,
    `POST ${ofSandbox}/sessions`,
    `GET ${ofSandbox}/sessions/*`,
    `POST ${ofSandbox}/sessions/*`,
    `PUT ${ofSandbox}/sessions/*`,
    `DELETE ${ofSandbox}/sessions/*`,
  ],
  "Previews are not supported, because gateways have no sessions of browsers: publish the port as a service": [
    `POST ${ofSandbox}/previews`,
    `PUT ${ofSandbox}/previews/:preview`,
    `DELETE ${ofSandbox}/previews/:preview`,
  ],
  "A rebase is not supported, because a sandbox keeps its image: claim the other template and copy the files": [
    `PUT ${ofSandbox}/rootfs/rebase`,
  ],
  "Templates cannot be declared with a key, because they decide what Pods may do: use from-sandbox, kubectl or Pulumi":
    ["POST /api/v1/templates", "PUT /api/v1/templates/:template"],
  "Volumes are not supported, because Sandbox0 has removed them: declare volumes in the template": [
    "GET /api/v1/sandboxvolumes",
    "POST /api/v1/sandboxvolumes",
    "GET /api/v1/sandboxvolumes/*",
    "POST /api/v1/sandboxvolumes/*",
    "PUT /api/v1/sandboxvolumes/*",
    "DELETE /api/v1/sandboxvolumes/*",
  ],
  "Credential sources are not supported, because no network policy uses them: declare credentials in the template": [
    "GET /api/v1/credential-sources",
    "POST /api/v1/credential-sources",
    "GET /api/v1/credential-sources/:name",
    "PUT /api/v1/credential-sources/:name",
    "DELETE /api/v1/credential-sources/:name",
  ],
  "Images cannot be pushed with a key, because Ramet serves no registry: push them to your registry": [
    "POST /api/v1/registry/credentials",
  ],
  "Keys cannot be managed with a key, because a stolen one could create others: use `ramet key create`, `rotate` and `revoke`":
    ["GET /api-keys", "POST /api-keys", "GET /api-keys/*", "POST /api-keys/*", "DELETE /api-keys/*"],
  "Teams, users, regions and logins are not supported, because Kubernetes has accounts: give each team a namespace": [
    ...(["teams", "users", "regions", "auth"] as const).flatMap((name) => [
      `GET /${name}` as const,
      `POST /${name}` as const,
      `GET /${name}/*` as const,
      `POST /${name}/*` as const,
      `PUT /${name}/*` as const,
      `DELETE /${name}/*` as const,
    ]),
  ],
});

const Health = envelope(z.object({ status: z.literal("healthy"), timestamp: z.iso.datetime() }));

const publicRoutes: readonly Sandbox0Route[] = [
  ...["/healthz", "/readyz"].map((path) =>
    route("GET", path, {
      summary: "Reports that the server accepts requests.",
      needs: "public",
      answers: { 200: Health },
      handle: ({ service }) => success({ status: "healthy", timestamp: service.clock.now().toISOString() }),
    }),
  ),
  route("GET", "/metadata", {
    summary: "Describes the server for the command line of Sandbox0.",
    needs: "public",
    answers: { 200: envelope(z.object({ gateway_mode: z.literal("direct"), service: z.string() })) },
    handle: () => success({ gateway_mode: "direct", service: "ramet" }),
  }),
];

/** All routes of the dialect, below the prefix. The server, the OpenAPI document and the tests of rights follow from this table. */
export const sandbox0Routes: readonly Sandbox0Route[] = [
  documentRoute(() => sandbox0Document()),
  ...publicRoutes,
  ...sandboxRoutes,
  ...snapshotRoutes,
  ...contextRoutes,
  ...fileRoutes,
  ...networkRoutes,
  ...serviceRoutes,
  ...observeRoutes,
  ...eventRoutes,
  ...quotaRoutes,
  ...templateRoutes,
  ...unsupported,
];

/** The OpenAPI document of the dialect. */
export function sandbox0Document() {
  return openApiDocument(sandbox0Routes, {
    title: "Ramet's client API for Sandbox0's clients",
    description:
      "The part of Sandbox0's HTTP API that Ramet serves, below /sandbox0. `x-ramet-rights` lists the rights that a key's account needs.",
    error: ErrorBody,
  });
}
