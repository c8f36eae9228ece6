import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { RametError } from "../../src/base/errors.ts";
import { type Answer, type ClientApiWorld, openWithKey } from "./client-api-world.ts";

/** Requests whose clients have gone, that are sent again, or that fail after their answer. */
let world: ClientApiWorld;
let key: string;
const namespace = "team-r";

beforeAll(async () => {
  ({ world, key } = await openWithKey(namespace));
  const set = sandboxSetKind.manifest.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata: { name: "warm", namespace },
    spec: { replicas: 4, templateRef: { name: "base" } },
  });
  await world.cluster.client.of(sandboxSetKind).create(set);
});
beforeEach(async () => {
  const sets = world.cluster.client.of(sandboxSetKind);
  const ready = async () => (await sets.get({ namespace, name: "warm" })).status?.availableReplicas;
  await expect.poll(ready).toBe(4);
});
afterAll(() => world.close());

/** As Sandbox0's clients. */
const seed = (method: string, path: string, body?: object, headers: object = {}): Promise<Answer> =>
  world.call(undefined, method, `/sandbox0/api/v1${path}`, body, { authorization: `Bearer ${key}`, ...headers });
const dataOf = ({ json }: Answer) => (json as { data: Record<string, unknown> }).data;
const idOf = (answer: Answer) => String(dataOf(answer)["sandbox_id"]);
const claim = (body: object = {}, headers: object = {}) =>
  seed("POST", "/sandboxes", { template: "warm", ...body }, headers);
const statusOf = async (id: string) => dataOf(await seed("GET", `/sandboxes/${id}`))["status"];
const objectOf = async (answer: Answer) =>
  world.cluster.client.of(sandboxKind).get({ namespace, name: String(dataOf(answer)["pod_name"]) });

it("takes one ready sandbox for several requests with a key at once, and for those that come later", async () => {
  const headers = { "idempotency-key": "several" };
  const answers = await Promise.all(Array.from({ length: 5 }, () => claim({}, headers)));
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
  const ids = new Set(answers.map(idOf));
  expect(ids.size).toBe(1);
  expect([...ids]).toEqual([idOf(await claim({}, headers))]);
  expect(idOf(await claim())).not.toBe([...ids][0]);
});

it("keeps the sandbox of a client that has gone for its next attempt, and deletes that of one that cannot repeat", async () => {
  world.node.ignored.add(namespace);
  const sandboxes = world.cluster.client.of(sandboxKind);
  const list = async () => (await sandboxes.list({ namespace })).items.map(({ metadata }) => metadata.uid);
  const before = await list();
  const added = async () => (await list()).filter((uid) => !before.includes(uid)).length;
  const abandon = async (headers: object): Promise<void> => {
    const [leaving, count] = [new AbortController(), await added()];
    const request = fetch(`${world.url}/sandboxes`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json", ...headers },
      body: JSON.stringify({ templateID: "base" }),
      signal: leaving.signal,
    });
    await expect.poll(added).toBe(count + 1);
    leaving.abort();
    await expect(request).rejects.toThrow();
  };
  await abandon({});
  await expect.poll(added).toBe(0);
  await abandon({ "idempotency-key": "gone" });
  const repeated = world.call(key, "POST", "/sandboxes", { templateID: "base" }, { "idempotency-key": "gone" });
  await world.node.release(world.cluster.client, namespace);
  expect(await repeated).toMatchObject({ status: 201 });
  expect(await added()).toBe(1);
});

it("captures a sandbox once for a repeated request", async () => {
  const id = idOf(await claim());
  const headers = { "idempotency-key": "capture" };
  const capture = () => seed("POST", `/sandboxes/${id}/snapshots`, { name: "Once" }, headers);
  const [one, two] = await Promise.all([capture(), capture()]);
  expect([one, two, await capture()].map((each) => dataOf(each)["id"])).toEqual(
    Array.from({ length: 3 }, () => dataOf(one)["id"]),
  );
  expect(dataOf(await seed("GET", `/sandboxes/${id}/snapshots`))).toMatchObject({ count: 1 });
  const other = await seed("POST", `/sandboxes/${id}/snapshots`, { name: "Once" });
  expect(dataOf(other)["id"]).not.toBe(dataOf(one)["id"]);
});

it("lets a sandbox run on whose pause fails after its answer, changes its times, and pauses it again", async () => {
  const claimed = await claim({ config: { ttl: 600 } });
  const [id, { metadata }] = [idOf(claimed), await objectOf(claimed)];
  const { behaviour } = world.node.cells.get(`${namespace}/${metadata.name}`)!;
  const slow = Promise.withResolvers<undefined>();
  Object.assign(behaviour, { captureGate: slow.promise, captureError: new RametError("StoreFull", "no room") });
  expect(await seed("POST", `/sandboxes/${id}/pause`)).toMatchObject({
    status: 200,
    json: { data: { paused: false } },
  });
  slow.resolve(undefined);
  await expect.poll(() => statusOf(id)).toBe("running");
  const spec = async () => (await world.cluster.client.of(sandboxKind).get(metadata)).spec;
  await expect.poll(async () => (await seed("POST", `/sandboxes/${id}/refresh`)).status).toBe(200);
  expect(await spec()).toMatchObject({ paused: false, pauseTime: expect.any(String) as string });

  // As a pause of files alone whose server was killed.
  behaviour.captureError = new RametError("StoreFull", "no room");
  await world.cluster.client.of(sandboxKind).mergePatch(metadata, {
    metadata: { annotations: { [annotations.contentsAfterPause]: "null" } },
    spec: { paused: true, persistentContents: ["filesystem"] },
  });
  await expect.poll(() => behaviour.captureError).toBeUndefined();
  await expect.poll(() => statusOf(id)).toBe("running");
  await expect
    .poll(() => seed("POST", `/sandboxes/${id}/pause`))
    .toMatchObject({ status: 200, json: { data: { paused: true } } });
  expect(await statusOf(id)).toBe("paused");
  const { items } = await world.cluster.client.of(checkpointKind).list({ namespace });
  const pauses = items.filter(
    ({ spec, status: own }) => spec.sandboxName === metadata.name && own?.phase === "Succeeded",
  );
  expect(pauses.map((one) => one.spec.persistentContents)).toEqual([["filesystem"]]);
});

it("gives a fork the variables of its source", async () => {
  const source = await claim({ config: { env_vars: { SECRET: "text" } } });
  const fork = await seed("POST", `/sandboxes/${idOf(source)}/fork`);
  expect(fork).toMatchObject({ status: 201 });
  const sealedOf = ({ metadata }: Awaited<ReturnType<typeof objectOf>>) =>
    metadata.annotations?.[annotations.sealedInitRequest];
  const { items } = await world.cluster.client.of(sandboxKind).list({ namespace });
  const sealed = sealedOf(await objectOf(source));
  expect(sealed).toBeDefined();
  expect(items.filter((each) => sealedOf(each) === sealed)).toHaveLength(2);
});

it("deletes a version that a recipe has built only with its named snapshot", async () => {
  const snapshots = world.cluster.client.of(namedSnapshotKind);
  const at = { namespace, name: "declared" };
  await snapshots.create(
    namedSnapshotKind.manifest.parse({
      apiVersion: "ramet.dev/v1alpha1",
      kind: "NamedSnapshot",
      metadata: at,
      spec: { from: { template: { name: "base" } }, recipe: [] },
    }),
  );
  await expect.poll(async () => (await snapshots.get(at)).status?.version).toBe(1);
  const remove = () => seed("DELETE", "/sandbox-rootfs-snapshots/declared@1");
  await expect.poll(remove).toMatchObject({ status: 403, json: { success: false } });
  expect((await snapshots.get(at)).status?.versions).toHaveLength(1);
  const { items } = await world.cluster.client.of(checkpointKind).list({ namespace });
  expect(items.filter(({ metadata }) => metadata.deletionTimestamp !== undefined)).toEqual([]);
  expect(await world.call(key, "DELETE", "/templates/declared")).toMatchObject({ status: 204 });
  await expect.poll(() => snapshots.find(at)).toBeUndefined();
});

it("answers each path of Sandbox0's clients in their envelope, and only for the team of the key", async () => {
  const envelope = (code: string) => ({ success: false, error: { code, message: expect.any(String) as string } });
  for (const path of ["/sandboxes/%zz", `/sandboxes/${"a".repeat(1_001)}`])
    expect(await seed("GET", path)).toMatchObject({ status: 400, json: envelope("bad_request") });
  const own = await world.call(undefined, "GET", "/sandboxes/%zz", undefined, { authorization: `Bearer ${key}` });
  expect(own.json).toMatchObject({ code: 400 });
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
  };
  const { statusCode, body } = await request(`${world.url}/sandbox0/api/v1/sandboxes/x/sessions/y/ws`, upgrade);
  expect({ statusCode, json: JSON.parse(body) as unknown }).toMatchObject({
    statusCode: 404,
    json: envelope("not_found"),
  });
  expect(await seed("GET", "/sandboxes", undefined, { "x-team-id": namespace })).toMatchObject({ status: 200 });
  const other = await seed("GET", "/sandboxes", undefined, { "x-team-id": "another" });
  expect(other).toMatchObject({ status: 403, json: envelope("forbidden") });
});

/** Sends a request without a body, also with headers that `fetch` refuses. */
async function request(
  url: string,
  headers: Record<string, string>,
): Promise<{ statusCode: number | undefined; body: string }> {
  const sent = httpRequest(url, { headers });
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { statusCode: response.statusCode, body: await text(response) };
}
