import * as z from "zod";
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
  const components: Record<string, unknown> = {};
  const errorAnswer = { description: "An error.", content: json(schemaOf(error, "output", components)) };
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = (paths[pathOf(route)] ??= {});
    path[route.method.toLowerCase()] = operation(route, errorAnswer, components);
  }
  return {
    openapi: "3.1.0",
    info: { title, description, version: "1" },
    paths: sorted(paths),
    components: { schemas: sorted(components), securitySchemes },
  };
}

const securitySchemes = {
  apiKey: { type: "apiKey", in: "header", name: "X-API-Key" },
  bearer: { type: "http", scheme: "bearer" },
};

type Components = Record<string, unknown>;

function operation(route: Route<never>, errorAnswer: object, components: Components): object {
  const { summary, needs, unsupported, body, bodyType, answerType, query, headers, answers } = route;
  return {
    summary,
    ...(needs === "public" ? { security: [] } : { security: [{ apiKey: [] }, { bearer: [] }] }),
    ...(needs !== "public" && needs.length > 0 && { "x-ramet-rights": needs.map(rightText) }),
    ...(unsupported !== undefined && { "x-ramet-unsupported": unsupported }),
    ...parametersOf([
      ...pathParameters(route),
      ...schemaParameters("query", query, components),
      ...schemaParameters("header", headers, components),
    ]),
    ...(body && requestBody(body, components)),
    ...(bodyType !== undefined && { requestBody: { required: false, content: { [bodyType]: {} } } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          {
            description: "Success.",
            ...(schema && { content: contentOf(answerType, schemaOf(schema, "output", components)) }),
          },
        ]),
      ),
      ...(unsupported !== undefined && { 501: errorAnswer }),
      default: errorAnswer,
    },
  };
}

function requestBody(body: z.ZodType, components: Components): object {
  const required = !body.safeParse(undefined).success;
  return { requestBody: { required, content: json(schemaOf(body, "input", components)) } };
}

/** `create sandboxes/exec`. */
function rightText({ verb, resource, subresource }: Need): string {
  return `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`;
}

function parametersOf(parameters: object[]): object {
  return parameters.length === 0 ? {} : { parameters };
}

function pathOf({ path, wildcard = "path" }: Route<never>): string {
  return path.replace(/:(\w+)/g, "{$1}").replace("*", `{${wildcard}}`);
}

function pathParameters(route: Route<never>): object[] {
  return [...pathOf(route).matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

/** Each property of an object's schema is a parameter. */
function schemaParameters(place: "query" | "header", schema: z.ZodType | undefined, components: Components): object[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = ObjectSchema.parse(schemaOf(schema, "input", components));
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    ...(required.includes(name) && { required: true }),
    ...(description !== undefined && { description }),
    schema: rest,
  }));
}

const ObjectSchema = z.looseObject({
  properties: z.record(z.string(), z.looseObject({ description: z.string().optional() })).optional(),
  required: z.array(z.string()).optional(),
});

/** JSON Schema of a zod schema, whose named parts are added to the components. */
function schemaOf(schema: z.ZodType, io: "input" | "output", components: Components): object {
  const written = z.toJSONSchema(schema, { io, unrepresentable: "any", override: plain });
  // JSON.parse(JSON.stringify()) also drops functions of zod, which is no part of a document.
  const text = JSON.stringify(written).replaceAll('"#/$defs/', '"#/components/schemas/');
  const { $schema: _, $defs = {}, ...rest } = JSON.parse(text) as { $schema?: string; $defs?: Components };
  for (const [name, { id: __, ...part }] of Object.entries($defs as Record<string, { id?: string }>))
    components[name] = part;
  return rest;
}

/** Leaves out what zod adds: a pattern of 300 characters for times, and the limits of JavaScript's numbers. */
function plain({
  jsonSchema,
}: {
  jsonSchema: { format?: string; pattern?: string; minimum?: number; maximum?: number };
}) {
  if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

function json(schema: object): object {
  return contentOf("application/json", schema);
}

function contentOf(type = "application/json", schema: object): object {
  return { [type]: { schema } };
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}
