import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import schema from "../plugin/schema.json" with { type: "json" };

it.each(["generate-reference", "generate-schema"])(
  "keeps the files of %s up to date",
  async (name) => {
    const script = fileURLToPath(new URL(`../scripts/${name}.mjs`, import.meta.url));
    const { stderr } = await promisify(execFile)(process.execPath, ["--no-warnings", script, "--check"]);
    expect(stderr).toBe("");
  },
  60_000,
);

it("has a schema whose references and required properties exist", () => {
  const references = JSON.stringify(schema).matchAll(/"\$ref":"#\/types\/([^"]+)"/g);
  expect(Object.keys(schema.types)).toEqual(expect.arrayContaining([...references].map(([, name]) => name)));
  const types: { properties: object; required: string[] }[] = [
    ...Object.values(schema.types),
    ...Object.values(schema.resources),
    ...Object.values(schema.resources).map((one) => ({
      properties: one.inputProperties,
      required: one.requiredInputs,
    })),
  ];
  for (const { properties, required } of types)
    expect(Object.keys(properties)).toEqual(expect.arrayContaining(required));
});
