import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { e2bRoutes } from "../../src/client-api/dialects/e2b/routes.ts";
import { nativePrefix, nativeRoutes } from "../../src/client-api/dialects/native/routes.ts";
import { sandbox0Routes } from "../../src/client-api/dialects/sandbox0/routes.ts";
import { rametGroup } from "../../src/api/schema/kind.ts";
import type { Need } from "../../src/client-api/keys/callers.ts";
import { sampleOf } from "../setup/route-samples.ts";
import type { RbacRule } from "../setup/until-allowed.ts";
import { allRights as all, ClientApiWorld } from "./client-api-world.ts";

/** Every route of the table, so that a new route is tested too. */
let world: ClientApiWorld;
let own: { key: string; sandboxID: string; snapshotID: string };
let stranger: string;

/** An error as the dialect of the path answers it. */
const errorOf = ({ path }: { path: string }, status: number, code: string): object => {
  if (path.startsWith(nativePrefix)) return { code };
  return path.startsWith("/sandbox0") ? { success: false, error: { details: { reason: code } } } : { code: status };
};

const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
const below = <T extends { path: string }>(prefix: string, routes: readonly T[]) =>
  routes.map((route) => ({ ...route, path: prefix + route.path }));
const guarded = [
  ...below("", e2bRoutes),
  ...below("/sandbox0", sandbox0Routes),
  ...below(nativePrefix, nativeRoutes),
].filter(({ needs }) => needs !== "public");
/** The parameters that name something else than a sandbox. */
const named = ["templateID", "template", "snapshot", "checkpoint", "name"];
const withIds = guarded.filter(({ path, unsupported }) => /[:*]/.test(path) && unsupported === undefined);

beforeAll(async () => {
  world = await ClientApiWorld.open();
  await world.namespace("team-a");
  await world.namespace("team-b");
  const key = await world.key("team-a", "agent", all);
  stranger = await world.key("team-b", "agent", all);
  const created = await world.call(key, "POST", "/sandboxes", { templateID: "base", timeout: 3600 });
  expect(created).toMatchObject({ status: 201 });
  const { sandboxID } = created.json as { sandboxID: string };
  const captured = await world.call(key, "POST", `/sandboxes/${sandboxID}/snapshots`, { name: "state" });
  expect(captured).toMatchObject({ status: 201 });
  const { snapshotID } = captured.json as { snapshotID: string };
  own = { key, sandboxID, snapshotID };
});
afterAll(() => world.close());

/** Reads what a client of the first namespace sees there. */
async function seen(): Promise<unknown> {
  const sandbox = await world.call(own.key, "GET", `/sandboxes/${own.sandboxID}`);
  const sandboxes = await world.call(own.key, "GET", "/v2/sandboxes");
  const snapshots = await world.call(own.key, "GET", "/snapshots");
  return [sandbox.json, sandboxes.json, snapshots.json];
}

describe("a key of another namespace", () => {
  it.each(withIds.map((route) => [nameOf(route), route] as const))(
    "gets 404 from %s, without effect",
    async (_, route) => {
      const before = await seen();
      // Only E2B's names have a namespace and a tag.
      const tagged = route.path.startsWith(nativePrefix) ? [] : ["team-a/state:default"];
      for (const id of [own.sandboxID, own.snapshotID, "team-a--base", "state", ...tagged]) {
        const { path, body } = sampleOf(route, (name) => (named.includes(name) ? id : own.sandboxID));
        const answer = await world.call(stranger, route.method, path, body);
        expect([path, answer.status, answer.json]).toMatchObject([path, 404, errorOf(route, 404, "NotFound")]);
      }
      expect(await seen()).toEqual(before);
    },
  );

  it("finds nothing in lists, and creates nothing from a snapshot", async () => {
    for (const path of ["/sandboxes", "/v2/sandboxes", "/snapshots", `/snapshots?sandboxID=${own.sandboxID}`])
      expect(await world.call(stranger, "GET", path)).toMatchObject({ status: 200, json: [] });
    expect(await world.call(stranger, "GET", `/sandboxes/metrics?sandbox_ids=${own.sandboxID}`)).toMatchObject({
      json: { sandboxes: {} },
    });
    for (const templateID of ["state", "team-a/state", "team-a/state:default", own.snapshotID])
      expect(await world.call(stranger, "POST", "/sandboxes", { templateID })).toMatchObject({ status: 404 });
  });
});

describe("a request without a valid key", () => {
  it.each(guarded.map((route) => [nameOf(route), route] as const))("gets 401 from %s", async (_, route) => {
    const { path, body } = sampleOf(route, () => own.sandboxID);
    const json = errorOf(route, 401, "Unauthorized");
    for (const key of [undefined, "e2b_00", `${own.key}0`])
      expect(await world.call(key, route.method, path, body)).toMatchObject({ status: 401, json });
  });
});

describe("a key whose account lacks one right", () => {
  const rights = new Map(
    guarded.flatMap(({ needs }) => (needs === "public" ? [] : needs)).map((need) => [textOf(need), need]),
  );
  it.each([...rights])("%s, gets 403 from each route that needs it", async (text, missing) => {
    const rules = all.flatMap((rule) => without(rule, missing));
    const key = await world.key("team-a", text.replaceAll(/[^a-z]/g, "-"), rules);
    const needing = guarded.filter(({ needs }) => needs !== "public" && needs.some((need) => textOf(need) === text));
    const before = await seen();
    for (const route of needing) {
      const { path, body } = sampleOf(route, () => own.sandboxID);
      const answer = await world.call(key, route.method, path, body);
      expect([nameOf(route), answer.status]).toEqual([nameOf(route), 403]);
    }
    expect(await seen()).toEqual(before);
  });
});

describe("a key with all rights", () => {
  const missing = guarded.flatMap(({ unsupported, ...route }) =>
    unsupported === undefined ? [] : [[nameOf(route), unsupported, route] as const],
  );
  it.each(missing)("gets 501 from %s: %s", async (_, unsupported, route) => {
    const { path } = sampleOf(route, () => own.sandboxID);
    const { status, json, text } = await world.call(own.key, route.method, path);
    expect([status, json]).toMatchObject([501, errorOf(route, 501, "NotSupported")]);
    expect(text).toContain(JSON.stringify(unsupported).slice(1, -1));
  });
});

it("lets no route delete or change a named snapshot for a key that may not, whatever its name is a parameter of", async () => {
  const verbs = ["create", "patch", "delete"];
  const rules = verbs.reduce(
    (left, verb) => left.flatMap((rule) => without(rule, { group: rametGroup, resource: "namedsnapshots", verb })),
    all,
  );
  const key = await world.key("team-a", "reader", rules);
  const before = await seen();
  const changing = guarded.filter(({ method }) => method !== "GET");
  for (const id of ["state", own.snapshotID])
    for (const route of changing) {
      const { path, body } = sampleOf(route, () => id);
      const named = { ...(body as object), name: "state", template_id: "state", sandbox_id: own.sandboxID };
      const answer = await world.call(key, route.method, path, body === undefined ? undefined : named);
      if (/templates|rootfs-snapshots/.test(route.path)) expect([nameOf(route), answer.status]).not.toContain(200);
      expect([nameOf(route), await seen()]).toEqual([nameOf(route), before]);
    }
  // The name of a snapshot of an existing sandbox.
  const named = { name: "state" };
  const path = `/sandboxes/${own.sandboxID}/snapshots`;
  expect(await world.call(key, "POST", path, named)).toMatchObject({ status: 403 });
  expect(await seen()).toEqual(before);
});

it("answers each route that is not supported with the reason", async () => {
  for (const route of e2bRoutes.filter(({ unsupported }) => unsupported !== undefined)) {
    const answer = await world.call(own.key, route.method, sampleOf(route, () => "x").path);
    expect(answer).toMatchObject({ status: 501, json: { code: 501, message: route.unsupported } });
  }
});

describe("the log and the metrics of the server", () => {
  it("contain the route of each request, and no key, token or id", async () => {
    const detail = await world.call(own.key, "GET", `/sandboxes/${own.sandboxID}`, undefined, {
      "x-request-id": "mine",
    });
    expect(detail.headers.get("x-request-id")).toBe("mine");
    const { envdAccessToken } = detail.json as { envdAccessToken: string };
    await expect.poll(() => world.lines.some((line) => line.includes('"id":"mine"'))).toBe(true);
    const log = world.lines.join("\n");
    expect(log).toContain('"route":"/sandboxes/:sandboxID"');
    const secrets = [own.key, own.key.slice(4), stranger, envdAccessToken, own.sandboxID, own.snapshotID];
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
    const metrics = await world.metrics.registry.metrics();
    expect(metrics).toContain('route="GET /sandboxes/:sandboxID",status="200"');
    expect(secrets.filter((secret) => metrics.includes(secret))).toEqual([]);
  });
});

function textOf({ verb, resource, subresource }: Need): string {
  return `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`;
}

/** The rule without one verb on one resource. */
function without(rule: RbacRule, { group, resource, subresource, verb }: Need): RbacRule[] {
  const name = subresource === undefined ? resource : `${resource}/${subresource}`;
  const { apiGroups = [], resources = [] } = rule;
  if (!apiGroups.includes(group) || !resources.includes(name)) return [rule];
  const others = resources.filter((each) => each !== name);
  const verbs = rule.verbs.filter((each) => each !== verb);
  return [
    ...(others.length === 0 ? [] : [{ ...rule, resources: others }]),
    ...(verbs.length === 0 ? [] : [{ ...rule, resources: [name], verbs }]),
  ];
}
