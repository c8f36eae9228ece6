import type { IncomingMessage } from "node:http";
import { expect, it } from "vitest";
import { Checkpoint } from "../../../api/kinds/checkpoint.ts";
import { ManualClock } from "../../../../test/setup/manual-clock.ts";
import type { Sandbox0 } from "./call.ts";
import { sandbox0Dialect, sandbox0Document, sandbox0Routes } from "./routes.ts";
import { ReadLogs, ReadUsage } from "./schemas.ts";

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

/** Serves a route without a path parameter. */
function serve(path: string, service: object, { query = {}, limits = {} }: { query?: object; limits?: object }) {
  const found = sandbox0Routes.find((each) => each.path === path);
  const request = { params: { dimension: "snapshot_storage_gb" }, query };
  const call = { request, reply: { code: () => undefined }, caller: { namespace: "t", key: "t/ci", limits } };
  return (found?.serve({ service } as unknown as Sandbox0, call as never) as { data: Record<string, unknown> }).data;
}

const checkpoint = (name: string) =>
  Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { name, namespace: "t", uid: name, resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
    spec: { sandboxName: "a" },
    status: { phase: "Succeeded", checkpointId: name, ramet: { sizeBytes: 5 } },
  });

it("lists each usage once to who reads pages until one is empty, and ends", () => {
  const checkpoints = ["a", "b", "c"].map(checkpoint);
  const known = { sandboxesIn: () => [], snapshotsIn: () => [], checkpointsIn: () => checkpoints };
  const service = { clock: new ManualClock(), known };
  const read = (query: object) =>
    serve("/api/v1/usage/windows", service, { query }) as { windows: { window_id: string }[]; next_cursor: string };
  const all = read({ limit: "5000" });
  expect(all.windows.length).toBeGreaterThan(4);
  for (const limit of ["1", "2", String(all.windows.length)]) {
    const seen: object[] = [];
    let page = read({ limit });
    for (; page.windows.length > 0; page = read({ limit, cursor: page.next_cursor })) seen.push(...page.windows);
    expect([limit, seen, page.next_cursor]).toEqual([limit, all.windows, ""]);
  }
});

it.each([
  [0, 0],
  [1, 1],
  [2_999_999_999, 2],
])("gives a key that may store %d bytes a quota of %d GB", (snapshotBytes, limit) => {
  const known = { sandboxesIn: () => [], snapshotsIn: () => [], checkpointsIn: () => [] };
  const quota = serve("/api/v1/quotas/:dimension", { known }, { limits: { snapshotBytes } });
  expect(quota).toMatchObject({ limit_value: limit, unit: "GB" });
});

it("limits pages without an error, and rejects a cursor after the year 9999", () => {
  expect(ReadLogs.parse({ limit: "99999" }).limit).toBe(10_000);
  expect([ReadUsage.parse({ limit: "1001" }).limit, ReadUsage.parse({}).limit]).toEqual([1_000, 100]);
  expect(ReadUsage.safeParse({ limit: "0" }).success).toBe(false);
  expect(ReadLogs.parse({ cursor: "253402300799999" }).cursor).toBe(253_402_300_799_999);
  expect(ReadLogs.safeParse({ cursor: "253402300800000" }).success).toBe(false);
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
