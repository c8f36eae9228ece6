import { documentRoute } from "../../routes/common-routes.ts";
import { openApiDocument } from "../../routes/openapi.ts";
import { ErrorBody } from "./answers.ts";
import { type E2bRoute, route } from "./call.ts";
import { observeRoutes } from "./observe-routes.ts";
import { sandboxRoutes } from "./sandbox-table.ts";
import { secretRoutes } from "./secret-routes.ts";
import { snapshotRoutes } from "./snapshot-routes.ts";
import { templateRoutes } from "./template-routes.ts";
import { templateBuildRoutes } from "./template-build-routes.ts";
import { tagRoutes } from "./template-tag-routes.ts";
import { unsupportedRoutes } from "./unsupported.ts";

/** All routes of the dialect. The server, the OpenAPI document and the tests of rights follow from this table. */
export const e2bRoutes: readonly E2bRoute[] = [
  route({
    method: "GET",
    path: "/health",
    summary: "Reports that the server accepts requests.",
    needs: "public",
    answers: { 204: null },
    handle: async (_e2b, { reply }) => reply.code(204).send(),
  }),
  documentRoute(() => e2bDocument()),
  ...sandboxRoutes,
  ...snapshotRoutes,
  ...templateRoutes,
  ...templateBuildRoutes,
  ...tagRoutes,
  ...observeRoutes,
  ...unsupportedRoutes,
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
