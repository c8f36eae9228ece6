import * as z from "zod";
import { createDocument, type CreateDocumentOptions, type ZodOpenApiOperationObject } from "zod-openapi";
import { defined } from "../../base/defined.ts";
import type { Need } from "../keys/callers.ts";
import type { Route } from "./route.ts";

export interface DocumentOptions {
  title: string;
  description: string;
  /** The body of every error. */
  error: z.ZodType;
}

/** Returns the OpenAPI document of a table of routes. Schemas with an id become components. */
export function openApiDocument(routes: readonly Route<never>[], { title, description, error }: DocumentOptions) {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const route of routes) (paths[pathOf(route)] ??= {})[route.method.toLowerCase()] = operation(route, error);
  const {
    paths: written,
    components,
    ...document
  } = createDocument(
    { openapi: "3.1.0", info: { title, description, version: "1" }, paths: sorted(paths) },
    { override: plain },
  );
  return {
    ...document,
    paths: written ?? {},
    components: { schemas: sorted(components?.schemas ?? {}), securitySchemes },
  };
}

const securitySchemes = {
  apiKey: { type: "apiKey", in: "header", name: "X-API-Key" },
  bearer: { type: "http", scheme: "bearer" },
};

function operation(route: Route<never>, error: z.ZodType): ZodOpenApiOperationObject {
  const { summary, needs, unsupported, body, bodyType, answerType, query, headers, answers } = route;
  const errorAnswer = { description: "An error.", content: contentOf("application/json", error) };
  const path = Object.fromEntries([...pathOf(route).matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => [name, z.string()]));
  return {
    summary,
    security: needs === "public" ? [] : [{ apiKey: [] }, { bearer: [] }],
    ...(needs !== "public" && needs.length > 0 && { "x-ramet-rights": needs.map(rightText) }),
    ...defined({ "x-ramet-unsupported": unsupported }),
    requestParams: {
      path: z.object(path),
      ...(query && { query: query as z.ZodObject }),
      ...(headers && { header: headers as z.ZodObject }),
    },
    ...(body && {
      requestBody: { required: !body.safeParse(undefined).success, content: contentOf("application/json", body) },
    }),
    ...(bodyType !== undefined && { requestBody: { required: false, content: { [bodyType]: {} } } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          { description: "Success.", ...(schema && { content: contentOf(answerType, schema) }) },
        ]),
      ),
      ...(unsupported !== undefined && { 501: errorAnswer }),
      default: errorAnswer,
    },
  };
}

/** `create sandboxes/exec`. */
function rightText({ verb, resource, subresource }: Need): string {
  return `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`;
}

function pathOf({ path, wildcard = "path" }: Route<never>): string {
  return path.replace(/:(\w+)/g, "{$1}").replace("*", `{${wildcard}}`);
}

/** Leaves out what zod adds: a pattern of 300 characters for times, and the limits of JavaScript's numbers. */
const plain: NonNullable<CreateDocumentOptions["override"]> = ({ jsonSchema }) => {
  if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
};

function contentOf(type = "application/json", schema: z.ZodType) {
  return { [type]: { schema } };
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}
