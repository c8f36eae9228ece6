import * as z from "zod";

/** The least request that the schemas of a route accept, or may accept. */
export interface SampleRequest {
  path: string;
  body: unknown;
}

interface SampledRoute {
  path: string;
  body?: z.ZodType;
  query?: z.ZodType;
}

/** @param id what each parameter of the path is */
export function sampleOf({ path, body, query }: SampledRoute, id: (parameter: string) => string): SampleRequest {
  const filled = path.replace(/:(\w+)|\*/g, (_, name?: string) => encodeURIComponent(id(name ?? "templateID")));
  const parameters = query === undefined ? {} : (leastOf(jsonSchema(query)) as Record<string, unknown>);
  const search = new URLSearchParams(
    Object.entries(parameters).map(([name, value]): [string, string] => [name, String(value)]),
  );
  return {
    path: search.size === 0 ? filled : `${filled}?${search.toString()}`,
    body: body === undefined ? undefined : leastOf(jsonSchema(body)),
  };
}

interface JsonSchema {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  anyOf?: JsonSchema[];
  enum?: unknown[];
  minimum?: number;
  minItems?: number;
  items?: JsonSchema;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
}

function jsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as JsonSchema;
}

/** The smallest value that has the required properties. */
function leastOf(schema: JsonSchema, definitions = schema.$defs ?? {}): unknown {
  const named = schema.$ref === undefined ? undefined : definitions[schema.$ref.replace("#/$defs/", "")];
  const { properties = {}, required = [], ...rest } = named ?? schema;
  const first = rest.anyOf?.[0];
  if (first !== undefined) return leastOf(first, definitions);
  if (rest.enum !== undefined) return rest.enum[0];
  switch ([rest.type].flat()[0]) {
    case "object":
      return Object.fromEntries(required.map((name) => [name, leastOf(properties[name] ?? {}, definitions)]));
    case "array":
      return Array.from({ length: rest.minItems ?? 0 }, () => leastOf(rest.items ?? {}, definitions));
    case "integer":
    case "number":
      return Math.max(1, rest.minimum ?? 1);
    case "boolean":
      return true;
    default:
      return "sample";
  }
}
