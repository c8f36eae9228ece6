import * as z from "zod";
import { documentRoute } from "../../routes/common-routes.ts";
import { openApiDocument } from "../../routes/openapi.ts";
import { agentRoutes } from "./agent-routes.ts";
import { type AgentTierRoute, route } from "./call.ts";
import { ErrorBody } from "./errors.ts";
import { fileRoutes } from "./file-routes.ts";
import { portRoutes } from "./port-routes.ts";
import { sandboxRoutes } from "./sandbox-table.ts";
import { templateRoutes } from "./template-routes.ts";
import { unsupportedRoutes } from "./unsupported.ts";
import { userRoutes } from "./user-routes.ts";

/** The path below which all routes are, but those of probes. */
export const prefix = "/api/v1";

/** For probes, which need no key. */
export const healthRoutes: readonly AgentTierRoute[] = ["/healthz", "/readyz"].map((path) =>
  route({
    method: "GET",
    path,
    summary: "Reports that the server accepts requests.",
    needs: "public",
    answers: { 200: z.string() },
    handle: async (_agentTier, { reply }) => reply.type("text/plain").send("ok"),
  }),
);

/** All routes of the dialect. The server, the OpenAPI document and the tests of rights follow from this table. */
export const agentTierRoutes: readonly AgentTierRoute[] = [
  documentRoute(() => agentTierDocument()),
  ...sandboxRoutes,
  ...fileRoutes,
  ...portRoutes,
  ...agentRoutes,
  ...templateRoutes,
  ...userRoutes,
  ...unsupportedRoutes,
];

/** The OpenAPI document of the dialect. */
export function agentTierDocument() {
  const routes = [...healthRoutes, ...agentTierRoutes.map((each) => ({ ...each, path: `${prefix}${each.path}` }))];
  return openApiDocument(routes, {
    title: "Ramet's client API for AgentTier's clients",
    description:
      "The part of AgentTier's HTTP API that Ramet serves. `x-ramet-rights` lists the rights that a key's account needs.",
    error: ErrorBody,
  });
}
