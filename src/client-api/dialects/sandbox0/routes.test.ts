import type { IncomingMessage } from "node:http";
import { expect, it } from "vitest";
import type { Sandbox0 } from "./call.ts";
import { sandbox0Dialect, sandbox0Document, sandbox0Routes } from "./routes.ts";

it("describes each route, with its rights", () => {
  const { paths, components } = sandbox0Document();
  expect(paths["/api/v1/sandboxes"]?.["post"]).toMatchObject({
    "x-ramet-rights": ["create sandboxes", "create sandboxes/exec"],
    requestBody: { required: true },
    responses: { 201: {}, default: {} },
  });
  expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(["ErrorEnvelope", "SandboxRootFSSnapshot"]));
});

it("names each method and path once", () => {
  const names = sandbox0Routes.map(({ method, path }) => `${method} ${path}`);
  expect(names).toEqual([...new Set(names)]);
});

const token = { authorization: "Bearer s0_eu_00" };
it.each([
  ["the format of the key", "/api/v1/sandboxes", token, "/sandbox0/api/v1/sandboxes"],
  ["the host", "/api/v1/sandboxes", { host: "sandbox0.example.com" }, "/sandbox0/api/v1/sandboxes"],
  ["a path that only it has", "/metadata", {}, "/sandbox0/metadata"],
  ["nothing", "/api/v1/sandboxes", { authorization: "Bearer e2b_00", host: "api.example.com" }, undefined],
  ["nothing, beside a key in X-API-Key", "/sandboxes", { ...token, "x-api-key": "e2b_00" }, undefined],
  ["nothing, at a path of another dialect", "/mcp", token, undefined],
  ["nothing, at the native path", "/ramet/v1/sandboxes", token, undefined],
  ["nothing, because the prefix is there", "/sandbox0/0.9/api/v1/sandboxes", token, undefined],
])("recognizes a request by %s", (_, url, headers, path) => {
  const dialect = sandbox0Dialect({} as Sandbox0);
  expect(dialect.pathOf?.({ url, headers } as unknown as IncomingMessage)).toBe(path);
});
