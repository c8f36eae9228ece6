import * as z from "zod";
import { documentRoute, unsupportedRoute } from "../../routes/common-routes.ts";
import { openApiDocument } from "../../routes/openapi.ts";
import { agentRoutes } from "./agent-routes.ts";
import { type AgentTierRoute, route } from "./call.ts";
import { ErrorBody } from "./errors.ts";
import { fileRoutes } from "./file-routes.ts";
import { portRoutes } from "./port-routes.ts";
import { sandboxRoutes } from "./sandbox-table.ts";
import { templateRoutes } from "./template-routes.ts";
import type { Method } from "../../routes/route.ts";

const backups = "Backups are not supported: use `ramet checkpoint create` or a NamedSnapshot";
const bulk = "Bulk requests are not supported: send one request for each sandbox";
const sharing = "Sharing is not supported: give each user a key of the namespace";
const templates = "Templates cannot be changed with a key: declare SandboxTemplates with kubectl or Pulumi";
const keys = "Keys cannot be managed with a key: use `ramet key create`, `rotate` and `revoke`";
const pools = "Warm pools cannot be changed with a key: declare SandboxSets with kubectl or Pulumi";
const policies = "Policies cannot be managed with a key: set quotas and limits of the namespace";
const administration = "The administration of a cluster is not supported: use kubectl";
const webhooks = "Webhooks are not supported: watch the Sandboxes";

/** Routes of AgentTier's API that Ramet does not have, and what to do instead. */
const unsupported: readonly (readonly [methods: readonly Method[], path: string, why: string])[] = [
  [["PATCH"], "/sandboxes/:id", "Changes of a sandbox are not supported: change the Sandbox with kubectl"],
  [["POST"], "/sandboxes/bulk", bulk],
  [["POST"], "/sandboxes/bulk-action", bulk],
  [["GET", "POST"], "/sandboxes/:id/backups", backups],
  [["POST"], "/sandboxes/:id/backups/:snapshot/restore", backups],
  [["DELETE"], "/sandboxes/:id/backups/:snapshot", backups],
  [["GET", "POST"], "/sandboxes/:id/share", sharing],
  [["DELETE"], "/sandboxes/:id/share/:user", sharing],
  [["POST"], "/sandboxes/:id/share-links", sharing],
  [["POST"], "/templates", templates],
  [["PUT", "DELETE"], "/templates/:name", templates],
  [["GET", "PUT"], "/user/preferences", "Preferences are not supported"],
  [["GET", "POST"], "/user/api-keys", keys],
  [["DELETE"], "/user/api-keys/:key", keys],
  [["GET"], "/warmpool/status", pools],
  [["PUT"], "/warmpool/config", pools],
  [["GET", "POST", "PUT", "DELETE"], "/governance/*", policies],
  [["GET", "PUT"], "/cluster/*", administration],
  [["GET"], "/audit/events", administration],
  [["GET"], "/analytics/*", administration],
  [["GET"], "/admin/*", administration],
  [["GET", "POST"], "/webhooks", webhooks],
  [["GET", "PUT", "PATCH", "DELETE"], "/webhooks/*", webhooks],
];

const unsupportedRoutes: readonly AgentTierRoute[] = unsupported.flatMap(([methods, path, why]) =>
  methods.map((method) => unsupportedRoute(method, path, why)),
);

const User = z
  .object({
    sub: z.string().describe("The user of the key's service account."),
    name: z.string().describe("The API key, as `<namespace>/<name>`."),
    groups: z.array(z.string()),
    isAdmin: z.boolean(),
  })
  .meta({ id: "User" });

const userRoutes: readonly AgentTierRoute[] = [
  route({
    method: "GET",
    path: "/user/me",
    summary: "Describes the caller.",
    needs: [],
    answers: { 200: User },
    handle: (_agentTier, { caller: { user, key } }) =>
      Promise.resolve({ sub: user.user, name: key, groups: [...(user.groups ?? [])], isAdmin: false }),
  }),
];

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
