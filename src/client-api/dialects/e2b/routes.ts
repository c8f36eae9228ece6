import { answerErrors, serveRoutes } from "../../routes/serve-routes.ts";
import { openApiDocument } from "../../routes/openapi.ts";
import { documentRoute, unsupportedRoutes } from "../../routes/route.ts";
import type { Dialect } from "../../server.ts";
import { ErrorBody, errorAnswer } from "./answers.ts";
import { type E2b, type E2bRoute, route } from "./call.ts";
import { observeRoutes } from "./observe-routes.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";
import { secretRoutes } from "./secret-routes.ts";
import { serveUploads } from "./serve-uploads.ts";
import { snapshotRoutes } from "./snapshot-routes.ts";
import { templateRoutes } from "./template-routes.ts";
import { templateBuildRoutes } from "./template-build-routes.ts";
import { tagRoutes } from "./template-tag-routes.ts";

/** The HTTP API of E2B, as far as its SDKs use it. */
export function e2bDialect(e2b: E2b): Dialect {
  return {
    register: (server) => {
      answerErrors(server, errorAnswer);
      serveRoutes(server, e2bRoutes, e2b);
      serveUploads(server, e2b);
    },
  };
}

/** Routes of E2B's API that Ramet does not have, by what to do instead. */
const unsupported = unsupportedRoutes({
  "Metrics of teams are not supported, because nothing records them: read those of the servers in Prometheus's format":
    ["GET /teams/:teamID/metrics", "GET /teams/:teamID/metrics/max"],
  "Builds of earlier command lines are not supported, because they push images to E2B: use Template.build of the SDKs":
    [
      "POST /templates",
      "POST /v2/templates",
      "POST /templates/:templateID",
      "POST /templates/:templateID/builds/:buildID",
    ],
  "Default templates are not supported, because each namespace has its own: list them with GET /v2/templates": [
    "GET /default-templates",
  ],
  "Volumes are not supported, because those of E2B have no size and no class: declare PersistentVolumeClaims in the SandboxTemplate":
    ["GET /volumes", "POST /volumes", "GET /volumes/:volumeID", "DELETE /volumes/:volumeID"],
  "Nodes are not supported, because a key sees its namespace only: list them with `kubectl get nodes`": [
    "GET /nodes",
    "GET /nodes/:nodeID",
    "POST /nodes/:nodeID",
  ],
  "Keys cannot be managed with a key, because a stolen one could create others: use `ramet key create`, `rotate` and `revoke`":
    [
      "GET /api-keys",
      "POST /api-keys",
      "PATCH /api-keys/:apiKeyID",
      "DELETE /api-keys/:apiKeyID",
      "POST /access-tokens",
      "DELETE /access-tokens/:accessTokenID",
    ],
  "The administration of teams is not supported, because a key sees its namespace only: use kubectl in the namespace of the team":
    [
      "GET /admin/sandboxes/running-counts",
      "POST /admin/teams/:teamID/sandboxes/kill",
      "POST /admin/teams/:teamID/builds/cancel",
      "POST /admin/teams/:teamID/api-keys",
      "DELETE /admin/teams/:teamID/api-keys/:apiKeyID",
    ],
});

/** All routes of the dialect. The server, the OpenAPI document and the tests of rights follow from this table. */
export const e2bRoutes: readonly E2bRoute[] = [
  route("GET", "/health", {
    summary: "Reports that the server accepts requests.",
    needs: "public",
    answers: { 204: null },
    handle: () => undefined,
  }),
  documentRoute(() => e2bDocument()),
  ...sandboxRoutes,
  ...snapshotRoutes,
  ...templateRoutes,
  ...templateBuildRoutes,
  ...tagRoutes,
  ...observeRoutes,
  ...unsupported,
  ...secretRoutes,
];

/** The OpenAPI document of the dialect. */
export function e2bDocument() {
  return openApiDocument(e2bRoutes, {
    title: "Ramet's client API for E2B's SDKs",
    description:
      "The part of E2B's HTTP API that Ramet serves. `x-ramet-rights` lists the rights that a key's account needs.",
    error: ErrorBody,
  });
}
