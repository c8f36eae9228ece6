import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { e2bDocument, e2bRoutes } from "../dialects/e2b/routes.ts";

it("finds the documents of the reference up to date with the tables of routes", async () => {
  const script = fileURLToPath(new URL("../../../scripts/generate-openapi.mjs", import.meta.url));
  const { stderr } = await promisify(execFile)(process.execPath, ["--no-warnings", script, "--check"]);
  expect(stderr).toBe("");
});

it("describes each route with its parameters, its body and what callers need", () => {
  const { paths, components } = e2bDocument();
  const operations = Object.values(paths).flatMap((path): unknown[] => Object.values(path as object));
  expect(operations).toHaveLength(e2bRoutes.length);
  expect(paths["/sandboxes/{sandboxID}/pause"]?.["post"]).toMatchObject({
    security: [{ apiKey: [] }, { bearer: [] }],
    "x-ramet-rights": ["patch sandboxes"],
    parameters: [{ name: "sandboxID", in: "path", required: true }],
    requestBody: { required: false },
    responses: { 204: {}, default: {} },
  });
  expect(paths["/v2/sandboxes"]?.["get"]).toMatchObject({
    parameters: expect.arrayContaining([expect.objectContaining({ name: "limit", in: "query" })]) as unknown,
  });
  expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(["Error", "NewSandbox", "Sandbox"]));
});

it("names each method and path once", () => {
  const names = e2bRoutes.map(({ method, path }) => `${method} ${path}`);
  expect(names).toEqual([...new Set(names)]);
});
