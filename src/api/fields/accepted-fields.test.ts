import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { kinds, renderCrds } from "../kinds/crd.ts";
import { annotations } from "../names/labels.ts";
import { honouredFields, refusedFields } from "../../../test/setup/honoured-fields.ts";
import { ignoredFields } from "./ignored-fields.ts";

type Schema = Record<string, unknown> & { properties?: Record<string, Schema>; items?: Schema };
type Files = Record<string, Record<string, string> | undefined>;

/** The paths of a schema's values: fields of objects without a schema end a path. */
function leaves({ properties, items }: Schema, at: string): string[] {
  if (properties !== undefined && Object.keys(properties).length > 0) {
    return Object.entries(properties).flatMap(([field, schema]) => leaves(schema, `${at}.${field}`));
  }
  return items === undefined ? [at] : leaves(items, `${at}[]`);
}

const schemas = new Map(
  renderCrds().map(({ spec: { names, versions } }) => {
    const root = versions[0]?.schema.openAPIV3Schema as Schema;
    return [names.kind, leaves(root.properties?.["spec"] ?? {}, "spec")];
  }),
);
const kindNames = kinds.map(({ kind }) => kind);
const honoured = (kind: string): Record<string, string> => (honouredFields as Files)[kind] ?? {};
const refused = (kind: string): Record<string, string> => (refusedFields as Files)[kind] ?? {};
const ignored = (kind: string) => ignoredFields.filter(({ kinds: of }) => (of as readonly string[]).includes(kind));
const covers = (path: string, leaf: string) =>
  leaf === path || leaf.startsWith(`${path}.`) || leaf.startsWith(`${path}[`);

describe.each(kindNames)("%s", (kind) => {
  const schema = schemas.get(kind) ?? [];

  it("has no field that is neither honoured, nor refused, nor reported", () => {
    const known = [
      ...Object.keys(honoured(kind)),
      ...Object.keys(refused(kind)),
      ...ignored(kind).map(({ path }) => path),
    ];
    expect(schema.length).toBeGreaterThan(0);
    expect(schema.filter((leaf) => !known.some((path) => covers(path, leaf)))).toEqual([]);
  });

  it("has every field of the tables", () => {
    const paths = [...Object.keys(honoured(kind)), ...Object.keys(refused(kind)), ...schemaPaths(kind)];
    expect(paths.filter((path) => !schema.some((leaf) => covers(path, leaf)))).toEqual([]);
  });

  it("has no field that is honoured although it never has an effect, or reported although it always has one", () => {
    const always = ignored(kind).filter(({ only }) => only === undefined);
    const sometimes = ignored(kind).filter(({ only }) => only !== undefined);
    expect(always.filter(({ path }) => Object.keys(honoured(kind)).some((one) => covers(path, one)))).toEqual([]);
    const inSchema = sometimes.map(({ path }) => path).filter((path) => schema.includes(path));
    // Every name of a runtime is reported, by one of two entries.
    const partly = inSchema.filter((path) => path !== "spec.runtimes[].name");
    expect(partly.filter((path) => !(path in honoured(kind)))).toEqual([]);
  });

  /** Each field of the schema with the entry that is nearest above it. */
  const read = schema.flatMap((leaf) => {
    const entries = Object.entries(honoured(kind)).filter(([path]) => covers(path, leaf));
    return entries
      .sort(([a], [b]) => b.length - a.length)
      .slice(0, 1)
      .map(([, file]): [string, string] => [leaf, file]);
  });

  it.each([...read, ...Object.entries(refused(kind))])("%s is read in %s", (path, file) => {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
    const [name] = path.replaceAll("[]", "").split(".").slice(-1);
    expect(text).toMatch(new RegExp(`\\b${name ?? ""}\\b`));
  });
});

/** The paths inside a Pod template, which has no schema, and of annotations are compared with nothing. */
function schemaPaths(kind: string): string[] {
  const isOutside = (path: string) => path.startsWith("spec.template.") || path.startsWith("metadata.");
  return ignored(kind)
    .map(({ path }) => path)
    .filter((path) => !isOutside(path));
}

/** The annotations of other projects that have an effect. */
const honouredAnnotations = [
  "lock",
  "owner",
  "claimTimestamp",
  "initRuntimeRequest",
  "reservePausedSandboxDuration",
  "sandboxPriority",
  // Written by Ramet, and read by other programs.
  "sandboxId",
  "createdBy",
  "cleanupCandidate",
  // Every sandbox can be paused, as its value "true" asks for.
  "acsPauseEnabled",
  "description",
];

it("knows for every annotation of another project whether it has an effect", () => {
  const foreign = Object.entries(annotations).filter(([, key]) => !key.startsWith("ramet.dev/"));
  const reported = (key: string) => ignoredFields.some(({ path }) => path.endsWith(`annotations[${key}]`));
  const unknown = foreign.filter(([name, key]) => !honouredAnnotations.includes(name) && !reported(key));
  expect(unknown).toEqual([]);
  expect(honouredAnnotations.filter((name) => !(name in annotations))).toEqual([]);
});
