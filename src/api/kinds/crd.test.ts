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

it("describes the spec and the status of each kind for kubectl explain", () => {
  for (const { spec } of renderCrds()) {
    const { properties } = spec.versions[0]?.schema.openAPIV3Schema as { properties: Record<string, object> };
    const described = Object.entries(properties).filter(([field]) => field === "spec" || field === "status");
    for (const [, schema] of described) expect(schema).toHaveProperty("description");
  }
});
