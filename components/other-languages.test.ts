import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { parse } from "yaml";
import schema from "../plugin/schema.json" with { type: "json" };

/** The examples in other languages name only what the package's schema has. */
interface Property {
  $ref?: string;
  type?: string;
  oneOf?: Property[];
  items?: Property;
  additionalProperties?: Property;
}
interface ObjectType {
  properties: Record<string, Property>;
  required: string[];
}
const types = schema.types as unknown as Record<string, ObjectType>;
const resources = schema.resources as unknown as Record<
  string,
  ObjectType & { inputProperties: Record<string, Property>; requiredInputs: string[] }
>;

function inputsOf(name: string): ObjectType | undefined {
  const resource = resources[`ramet:index:${name}`];
  return resource && { properties: resource.inputProperties, required: resource.requiredInputs };
}

it("has an example in YAML whose properties exist and have their types", async () => {
  const program = parse(await read("yaml/Pulumi.yaml")) as {
    resources: Record<string, { type: string; properties: Record<string, unknown> }>;
    outputs: Record<string, string>;
  };
  const declared = Object.values(program.resources);
  for (const { type, properties } of declared) checkObject(properties, inputsOf(type.replace("ramet:", "")), type);
  const references = JSON.stringify(program).matchAll(/\$\{([^.}]+)\.([^}]+)\}/g);
  for (const [, name = "", output = ""] of references) {
    const { type = "" } = program.resources[name] ?? {};
    expect(Object.keys(resources[type.replace(":", ":index:")]?.properties ?? {}), name).toContain(output);
  }
});

function checkObject(value: Record<string, unknown>, type: ObjectType | undefined, path: string): void {
  expect(type, path).toBeDefined();
  const { properties = {}, required = [] } = type ?? {};
  expect(Object.keys(value), path).toEqual(expect.arrayContaining(required));
  for (const [key, inner] of Object.entries(value)) {
    expect(Object.keys(properties), path).toContain(key);
    const property = properties[key];
    if (property !== undefined) checkValue(inner, property, `${path}.${key}`);
  }
}

function checkValue(value: unknown, property: Property, path: string): void {
  const isReference = typeof value === "string" && value.startsWith("${");
  const name = property.$ref?.replace("#/types/", "");
  if (isReference || name === "pulumi.json#/Any" || property.oneOf !== undefined) return;
  if (name !== undefined) checkObject(value as Record<string, unknown>, types[name], path);
  else if (Array.isArray(value)) for (const one of value) checkValue(one, property.items ?? {}, path);
  else expect(typeof value, path).toBe(property.type === "integer" ? "number" : property.type);
}

it.each([
  [
    "python",
    "python/__main__.py",
    (name: string) => name.replace(/_$/, "").replace(/_([a-z])/g, (_, one: string) => one.toUpperCase()),
  ],
  ["go", "go/main.go", (name: string) => name.replace(/^./, (one) => one.toLowerCase())],
] as const)("has an example in %s whose arguments and outputs exist", async (_language, file, schemaName) => {
  const text = await read(file);
  const calls = [...text.matchAll(/ramet\.(?:New)?([A-Z]\w+)[({]/g)].map(({ 1: name = "", index, 0: found }) => ({
    name,
    keys: keysIn(text, index + found.length).map(schemaName),
  }));
  expect(calls.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["SandboxTemplate", "NamedSnapshot", "SandboxSet"]),
  );
  for (const { name, keys } of calls) {
    const type = inputsOf(name.replace(/Args$/, "")) ?? types[`ramet:index:${name.replace(/(Args|Array)$/, "")}`];
    expect(Object.keys(type?.properties ?? {}), name).toEqual(expect.arrayContaining(keys));
  }
  for (const [, variable = "", output = ""] of text.matchAll(/\b(python|data)\.([A-Za-z_]+)/g)) {
    const resource = variable === "python" ? "SandboxTemplate" : "NamedSnapshot";
    expect(Object.keys(resources[`ramet:index:${resource}`]?.properties ?? {})).toContain(schemaName(output));
  }
});

/** The names before `=` or `:` up to the bracket that closes the call, without those in inner brackets. */
function keysIn(text: string, start: number): string[] {
  let [depth, own] = [1, ""];
  for (let index = start; depth > 0 && index < text.length; index += 1) {
    const character = text[index] ?? "";
    if ("({[".includes(character)) depth += 1;
    else if (")}]".includes(character)) depth -= 1;
    else if (depth === 1) own += character;
  }
  return [...own.matchAll(/(\w+)(?:=|:\s)/g)].map(([, key = ""]) => key);
}

function read(path: string): Promise<string> {
  return readFile(new URL(`../examples/${path}`, import.meta.url), "utf8");
}
