import { answerErrors, serveRoutes } from "../../routes/serve-routes.ts";
import { openApiDocument } from "../../routes/openapi.ts";
import { documentRoute } from "../../routes/route.ts";
import type { Dialect } from "../../server.ts";
import { ErrorBody } from "./answers.ts";
import { type E2b, type E2bRoute, route } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { observeRoutes } from "./observe-routes.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";
import { secretRoutes } from "./secret-routes.ts";
import { serveUploads } from "./serve-uploads.ts";
import { snapshotRoutes } from "./snapshot-routes.ts";
import { templateRoutes } from "./template-routes.ts";
import { templateBuildRoutes } from "./template-build-routes.ts";
import { tagRoutes } from "./template-tag-routes.ts";
import { unsupported } from "./unsupported.ts";

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
