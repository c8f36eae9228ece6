import { expect, it } from "vitest";
import { renderCrds } from "./crd.ts";

it("uses only formats that the API server knows", () => {
  expect(new Set(formatsIn(renderCrds()))).toEqual(new Set(["int32", "int64", "date-time"]));
});

function formatsIn(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const own = "format" in value && typeof value.format === "string" ? [value.format] : [];
  return [...own, ...Object.values(value).flatMap(formatsIn)];
}

it("describes each field of each kind for kubectl explain", () => {
  const undescribed = renderCrds().flatMap(({ spec }) => {
    const { properties } = spec.versions[0]?.schema.openAPIV3Schema as JsonSchema;
    const own = Object.entries(properties ?? {}).filter(([field]) => !ofApiServer.has(field));
    return undescribedIn({ properties: Object.fromEntries(own) }, spec.names.kind);
  });
  expect(undescribed).toEqual([]);
});

interface JsonSchema {
  description?: string;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
}

/** The API server describes these itself. */
const ofApiServer = new Set(["apiVersion", "kind", "metadata"]);

/** The paths of the fields without a description. */
function undescribedIn({ properties = {}, items, additionalProperties }: JsonSchema, path: string): string[] {
  return [
    ...Object.entries(properties).flatMap(([field, schema]) => {
      const own = schema.description === undefined ? [`${path}.${field}`] : [];
      return [...own, ...undescribedIn(schema, `${path}.${field}`)];
    }),
    ...(items === undefined ? [] : undescribedIn(items, `${path}[]`)),
    ...(typeof additionalProperties === "object" ? undescribedIn(additionalProperties, `${path}.*`) : []),
  ];
}
