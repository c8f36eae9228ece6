import { openApiDocument } from "../../routes/openapi.ts";
import { documentRoute } from "../../routes/route.ts";
import { answerErrors, serveRoutes } from "../../routes/serve-routes.ts";
import type { Dialect } from "../../server.ts";
import { ErrorBody, errorAnswer, type Native, type NativeRoute } from "./call.ts";
import { checkpointRoutes } from "./checkpoint-routes.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";

/** The path below which all routes are. */
export const nativePrefix = "/ramet/v1";

/** Ramet's own HTTP API, for its own client. */
export function nativeDialect(native: Native): Dialect {
  return {
    register: (server) => {
      void server.register(
        (instance, _options, done) => {
          answerErrors(instance, errorAnswer);
          // Browsers add no key unasked, so pages of all origins may send one.
          instance.addHook("onSend", (request, reply, payload, next) => {
            if (request.headers.origin !== undefined) void reply.headers(readable);
            next(null, payload);
          });
          instance.options("/*", { config: { access: "public" } }, (_request, reply) =>
            reply.code(204).headers(preflight).send(),
          );
          serveRoutes(instance, nativeRoutes, native);
          done();
        },
        { prefix: nativePrefix },
      );
    },
  };
}

const readable = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "Retry-After, X-Request-Id",
};
const preflight = {
  ...readable,
  "access-control-allow-methods": "GET, POST, DELETE",
  "access-control-allow-headers": "authorization, content-type, idempotency-key, x-api-key",
  "access-control-max-age": "7200",
};

/** All routes of the dialect. The server, the OpenAPI document and the tests of rights follow from this table. */
export const nativeRoutes: readonly NativeRoute[] = [
  documentRoute(() => nativeDocument()),
  ...sandboxRoutes,
  ...checkpointRoutes,
];

/** The OpenAPI document of the dialect. */
export function nativeDocument() {
  return openApiDocument(
    nativeRoutes.map((each) => ({ ...each, path: `${nativePrefix}${each.path}` })),
    {
      title: "Ramet's native API",
      description:
        "What Ramet can do, for its own client. `x-ramet-rights` lists the rights that a key's account needs.",
      error: ErrorBody,
    },
  );
}
