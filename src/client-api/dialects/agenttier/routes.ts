import * as z from "zod";
import { openApiDocument } from "../../routes/openapi.ts";
import { documentRoute, unsupportedRoutes } from "../../routes/route.ts";
import { answerErrors, serveRoutes } from "../../routes/serve-routes.ts";
import type { Dialect } from "../../server.ts";
import { agentRoutes } from "./agent-routes.ts";
import { type AgentTier, type AgentTierRoute, route, ErrorBody, errorAnswer } from "./call.ts";
import { fileRoutes } from "./file-routes.ts";
import { portRoutes } from "./port-routes.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";
import { servePreviews } from "./serve-previews.ts";
import { serveTerminals } from "./serve-terminals.ts";
import type { SandboxSet } from "../../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { annotations } from "../../../api/names/labels.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { defined } from "../../../base/defined.ts";
import { needs } from "../../keys/needs.ts";
import { findTemplate, listTemplates, templateName } from "../../service/source.ts";

/** The HTTP API of AgentTier, as far as its Python client and command line use it. */
export function agentTierDialect(agentTier: AgentTier): Dialect {
  return {
    register: (server) => {
      serveRoutes(server, healthRoutes, agentTier);
      serveTerminals(server, agentTier);
      void server.register(
        (instance, _options, done) => {
          answerErrors(instance, errorAnswer);
          servePreviews(instance, agentTier);
          serveRoutes(instance, agentTierRoutes, agentTier);
          done();
        },
        { prefix },
      );
    },
  };
}

/** Routes of AgentTier's API that Ramet does not have, by what to do instead. */
const unsupported = unsupportedRoutes({
  "Changes of a sandbox are not supported: change the Sandbox with kubectl": ["PATCH /sandboxes/:id"],
  "Bulk requests are not supported: send one request for each sandbox": [
    "POST /sandboxes/bulk",
    "POST /sandboxes/bulk-action",
  ],
  "Backups are not supported: use `ramet checkpoint create` or a NamedSnapshot": [
    "GET /sandboxes/:id/backups",
    "POST /sandboxes/:id/backups",
    "POST /sandboxes/:id/backups/:snapshot/restore",
    "DELETE /sandboxes/:id/backups/:snapshot",
  ],
  "Sharing is not supported: give each user a key of the namespace": [
    "GET /sandboxes/:id/share",
    "POST /sandboxes/:id/share",
    "DELETE /sandboxes/:id/share/:user",
    "POST /sandboxes/:id/share-links",
  ],
  "Templates cannot be changed with a key: declare SandboxTemplates with kubectl or Pulumi": [
    "POST /templates",
    "PUT /templates/:name",
    "DELETE /templates/:name",
  ],
  "Preferences are not supported": ["GET /user/preferences", "PUT /user/preferences"],
  "Keys cannot be managed with a key: use `ramet key create`, `rotate` and `revoke`": [
    "GET /user/api-keys",
    "POST /user/api-keys",
    "DELETE /user/api-keys/:key",
  ],
  "Warm pools cannot be changed with a key: declare SandboxSets with kubectl or Pulumi": [
    "GET /warmpool/status",
    "PUT /warmpool/config",
  ],
  "Policies cannot be managed with a key: set quotas and limits of the namespace": [
    "GET /governance/*",
    "POST /governance/*",
    "PUT /governance/*",
    "DELETE /governance/*",
  ],
  "The administration of a cluster is not supported: use kubectl": [
    "GET /cluster/*",
    "PUT /cluster/*",
    "GET /audit/events",
    "GET /analytics/*",
    "GET /admin/*",
  ],
  "Webhooks are not supported: watch the Sandboxes": [
    "GET /webhooks",
    "POST /webhooks",
    "GET /webhooks/*",
    "PUT /webhooks/*",
    "PATCH /webhooks/*",
    "DELETE /webhooks/*",
  ],
});

const User = z
  .object({
    sub: z.string().describe("The user of the key's service account."),
    name: z.string().describe("The API key, as `<namespace>/<name>`."),
    groups: z.array(z.string()),
    isAdmin: z.boolean(),
  })
  .meta({ id: "User" });

const userRoute = route("GET", "/user/me", {
  summary: "Describes the caller.",
  needs: [],
  answers: { 200: User },
  handle: (_agentTier, { caller: { user, key } }) => ({
    sub: user.user,
    name: key,
    groups: [...(user.groups ?? [])],
    isAdmin: false,
  }),
});

const Template = z
  .object({
    name: z.string(),
    description: z.string(),
    image: z.string().optional(),
    resourceVersion: z.string().optional(),
    spec: z.looseObject({}).describe("The spec of the SandboxTemplate or SandboxSet."),
  })
  .meta({ id: "Template" });

const templateRoutes: readonly AgentTierRoute[] = [
  route("GET", "/templates", {
    summary: "Lists the sets and templates of the namespace, but templates that were kept for checkpoints.",
    needs: needs.listSources,
    answers: { 200: z.object({ templates: z.array(Template) }) },
    handle: ({ service }, { caller: { namespace } }) => ({
      templates: listTemplates(service, namespace).map(templateView),
    }),
  }),
  route("GET", "/templates/:name", {
    summary: "Describes a set or a template.",
    needs: needs.readSource,
    answers: { 200: Template },
    handle: ({ service }, { params: { name = "" }, caller: { namespace } }) =>
      templateView(findTemplate(service, namespace, name)),
  }),
];

function templateView(template: SandboxTemplate | SandboxSet): z.infer<typeof Template> {
  const { metadata, spec, kind } = template;
  const image = PodTemplateSpec.safeParse(spec.template).data?.spec.containers[0]?.image;
  return {
    name: templateName(template),
    description: metadata.annotations?.[annotations.description] ?? `${kind} of the namespace ${metadata.namespace}`,
    ...defined({ image }),
    resourceVersion: metadata.resourceVersion,
    spec,
  };
}

/** The path below which all routes are, but those of probes. */
const prefix = "/api/v1";

/** For probes, which need no key. */
const healthRoutes: readonly AgentTierRoute[] = ["/healthz", "/readyz"].map((path) =>
  route("GET", path, {
    summary: "Reports that the server accepts requests.",
    needs: "public",
    answers: { 200: z.string() },
    handle: (_agentTier, { reply }) => {
      void reply.type("text/plain");
      return "ok";
    },
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
  userRoute,
  ...unsupported,
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
