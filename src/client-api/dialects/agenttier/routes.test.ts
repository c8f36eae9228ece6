import { expect, it } from "vitest";
import { agentTierDocument, agentTierRoutes } from "./routes.ts";

it("describes each route below the prefix", () => {
  const { paths, components } = agentTierDocument();
  expect(paths["/api/v1/sandboxes/{id}/clone"]?.["post"]).toMatchObject({
    security: [{ apiKey: [] }, { bearer: [] }],
    "x-ramet-rights": ["create sandboxes", "create sandboxes/exec", "create checkpoints"],
    requestBody: { required: false },
    responses: { 202: {}, default: {} },
  });
  expect(paths["/api/v1/sandboxes/{id}/files/{path}"]?.["put"]).toMatchObject({
    requestBody: { content: { "application/octet-stream": {} } },
  });
  expect(paths["/api/v1/sandboxes/{id}/invoke"]?.["post"]).toMatchObject({
    responses: { 200: { content: { "text/event-stream": {} } } },
  });
  expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(["Error", "NewSandbox", "StartedClone"]));
});

it("names each method and path once", () => {
  const names = agentTierRoutes.map(({ method, path }) => `${method} ${path}`);
  expect(names).toEqual([...new Set(names)]);
});
