import { expect, it } from "vitest";
import { snapshotDigest } from "../../../src/api/snapshot/snapshot-digest.ts";
import { diffByTable, type Values } from "../handler.ts";
import { unknownValue } from "../validate.ts";
import { checkNamedSnapshot } from "./check.ts";
import { manifestOf, namedSnapshotDiff } from "./inputs.ts";

const template = { template: { spec: { containers: [{ name: "sandbox", image: "python" }] } } };
const recipe = [{ run: "true" }, { waitFor: { port: 8000 } }];
const requested: Values = {
  name: "data",
  namespace: "team-a",
  from: { template: { name: "python" } },
  source: { template },
  recipe,
  timeout: "1 hour",
  owner: "o/p/s/data",
};

it("adds the controller's digest and the ports that the recipe waits for", () => {
  const { inputs, failures } = checkNamedSnapshot({}, requested);
  expect(failures).toEqual([]);
  const contents = ["memory" as const, "filesystem" as const];
  const { digest } = snapshotDigest({ from: { template }, recipe, copied: new Map(), contents });
  expect(inputs).toMatchObject({ digest, ports: [8000], keepVersions: 5, deletionPolicy: "Retain" });
});

it("adds the ports of the snapshot it is built from, on which processes still listen", () => {
  const ports = (inheritedPorts: unknown) => checkNamedSnapshot({}, { ...requested, inheritedPorts }).inputs["ports"];
  expect(ports([9000, 8000])).toEqual([8000, 9000]);
  expect(ports(undefined)).toEqual([8000]);
  expect(ports(unknownValue)).toBe(unknownValue);
});

it("has another digest with layers, without them, and by default", () => {
  const digest = (layers?: unknown) => checkNamedSnapshot({}, { ...requested, layers }).inputs["digest"];
  expect(digest(true)).not.toBe(digest());
  expect(digest(false)).not.toBe(digest());
  expect(digest(false)).not.toBe(digest(true));
  expect(digest(unknownValue)).toBe(unknownValue);
  const { failures } = checkNamedSnapshot({}, { ...requested, layers: "yes" });
  expect(failures.map(({ property }) => property)).toEqual(["layers"]);
});

it("leaves the digest unknown while an input is unknown, and omits it if only the cluster knows it", () => {
  const open = checkNamedSnapshot({}, { ...requested, source: { template: unknownValue } });
  expect(open).toMatchObject({ failures: [], inputs: { digest: unknownValue } });
  const ofSandbox = { ...requested, from: { sandbox: { name: "a" } }, source: null };
  expect(checkNamedSnapshot({}, ofSandbox).inputs).not.toHaveProperty("digest");
});

it("names each field that the API server would reject", () => {
  const refusals = (change: Values): string =>
    checkNamedSnapshot({}, { ...requested, ...change })
      .failures.map(({ property, reason }) => `${property}: ${reason}`)
      .join("\n");
  expect(refusals({ name: "Data" })).toMatch(/^name: .*DNS label/);
  expect(refusals({ recipe: [{ copy: { path: "a", content: "" } }] })).toMatch(
    /^recipe\[0\]\.copy\.path: must be an abs/,
  );
  expect(refusals({ recipe: [{ run: "true", start: "true" }] })).toMatch(/^recipe\[0\]: .*exactly one of run, copy/);
  expect(refusals({ timeout: "soon" })).toMatch(/^timeout: it is not a duration/);
});

it("declares labels, annotations and a hold, and never lets a program write Ramet's own annotations", () => {
  const given = { labels: { team: "a" }, annotations: { why: "b", "ramet.dev/pulumi-resource": "c" }, suspend: true };
  const { inputs, failures } = checkNamedSnapshot({}, { ...requested, ...given, pinnedVersion: 3 });
  expect(failures).toEqual([]);
  expect(manifestOf(inputs)).toMatchObject({
    metadata: { labels: { team: "a" }, annotations: { why: "b", "ramet.dev/pulumi-resource": "o/p/s/data" } },
    spec: { suspend: true, pinnedVersion: 3 },
  });
  expect(checkNamedSnapshot({}, { ...requested, pinnedVersion: 0 }).failures).toMatchObject([
    { property: "pinnedVersion" },
  ]);
});

it("rejects a secret in the recipe itself", () => {
  const { failures } = checkNamedSnapshot({}, { ...requested, recipeHoldsSecrets: true });
  expect(failures.map(({ property }) => property)).toEqual(["recipe"]);
  expect(failures[0]?.reason).toMatch(/copy\(\{ path, secret \}\)/);
});

it("hashes secrets with a key that is created once", () => {
  const copied = { copy: { path: "/token", secretKeyRef: { name: "data-recipe", key: "token" } } };
  const withSecret = (token: string): Values => ({ ...requested, recipe: [copied], secrets: { token }, digestKey: "" });
  const first = checkNamedSnapshot({}, withSecret("one")).inputs;
  const again = checkNamedSnapshot(first, withSecret("one")).inputs;
  const other = checkNamedSnapshot(first, withSecret("two")).inputs;
  expect(first["digest"]).toMatch(/^sha256:/);
  expect(again).toEqual(first);
  expect(other["digest"]).not.toBe(first["digest"]);
  expect(other["digestKey"]).toBe(first["digestKey"]);
  const elsewhere = checkNamedSnapshot({}, withSecret("one")).inputs;
  expect(elsewhere["digest"]).not.toBe(first["digest"]);
});

it("replaces the object for another name or namespace, updates it for other changes, and ignores the timeout", () => {
  const { inputs } = checkNamedSnapshot({}, requested);
  const diff = (change: Values) => diffByTable(namedSnapshotDiff, inputs, { ...inputs, ...change });
  expect(diff({})).toEqual({ changes: false, replaces: [], deleteBeforeReplace: false });
  expect(diff({ timeout: "2 hours" }).changes).toBe(false);
  expect(diff({ keepVersions: 2 })).toMatchObject({ changes: true, replaces: [] });
  expect(diff({ name: "other" })).toEqual({ changes: true, replaces: ["name"], deleteBeforeReplace: false });
  expect(diff({ namespace: "other", keepVersions: 2 })).toMatchObject({ replaces: ["namespace"] });
});
