import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { apiKeyDigest, apiKeyId, keyValueId } from "../api/keys/api-key-text.ts";
import { ApiKey, apiKeyKind } from "../api/kinds/api-key.ts";
import { rametApiVersion, rametGroup, version } from "../api/schema/kind.ts";
import { resultOr } from "../base/errors.ts";
import { silentLog } from "../base/log.ts";
import { ApiKeys } from "../kube/api-keys.ts";
import { explicitConnection } from "../kube/connection.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { ClientKeys, mostSigners } from "./client-keys.ts";

/** The API server is a stand-in without keys. The events of their watch are those of a test. */
const { plural, kind } = apiKeyKind;
const namespace = "team-a";

let clock: ManualClock;
let server: StandInServer;
let client: KubeClient;
let apiKeys: ApiKeys;
let keys: ClientKeys;
let end: () => Promise<void>;

beforeEach(async () => {
  clock = new ManualClock();
  server = new StandInServer({ group: rametGroup, version, plural, kind, namespaced: true });
  await server.start();
  client = new KubeClient(explicitConnection({ server: server.url }), { clock });
  apiKeys = new ApiKeys(client, { log: silentLog });
  keys = new ClientKeys(apiKeys);
});
afterEach(async () => {
  await end();
  await client.close();
  await server.stop();
});

/** Starts following the keys. */
function follow(): void {
  const stop = new AbortController();
  const running = apiKeys.informer.run(stop.signal);
  end = async () => {
    stop.abort();
    await running;
  };
}

async function followed(): Promise<void> {
  follow();
  await apiKeys.informer.synced();
  await eventually(() => server.watchers).toBe(1);
}

const digestOf = (number: number) => `sha256:${number.toString(16).padStart(64, "0")}`;
const idOf = (name: string, digest: string) => keyValueId({ key: `${namespace}/${name}`, digest });

function put(name: string, digests: ApiKey["spec"]["digests"], creationTimestamp = "2026-01-01T00:00:00Z"): ApiKey {
  const metadata = { namespace, name, uid: name, resourceVersion: "1", creationTimestamp };
  const spec = { serviceAccountName: "agent", digests };
  const key = ApiKey.parse({ apiVersion: rametApiVersion, kind, metadata, spec });
  apiKeys.informer.store.put(key);
  return key;
}

function remove(key: ApiKey): void {
  apiKeys.informer.store.remove(key, true);
}

const unknown = { code: "Unavailable", isShort: true, retryable: true };

it("finds a value until it expires or its key is deleted, in its namespace only", async () => {
  await followed();
  const [one, other] = [digestOf(1), digestOf(2)];
  const expiresAt = new Date(clock.now().getTime() + 60_000).toISOString();
  put("a", [{ digest: one, expiresAt }, { digest: other }]);
  const found = await keys.find(namespace, idOf("a", one));
  expect(found).toEqual({ key: "team-a/a", digest: one });
  // It waits for the time that a watch lags behind.
  const missing = (inNamespace: string, id: string) => {
    const finding = keys.find(inNamespace, id);
    clock.advance(200);
    return finding;
  };
  expect(await missing("team-b", idOf("a", one))).toBeUndefined();
  clock.advance(60_000);
  expect(await missing(namespace, idOf("a", one))).toBeUndefined();
  expect(await keys.find(namespace, idOf("a", other))).toEqual({ key: "team-a/a", digest: other });
  const appearing = keys.find(namespace, idOf("b", one));
  const key = put("b", [{ digest: one }]);
  expect(await appearing).toEqual({ key: "team-a/b", digest: one });
  remove(key);
  expect(await missing(namespace, idOf("b", one))).toBeUndefined();
});

it("finds the values with which a request was sent, wherever they are", async () => {
  await followed();
  const text = (first: string) => `s0_eu_${apiKeyId({ namespace, name: "a" })}${first.repeat(32)}`;
  const digest = (first: string) => apiKeyDigest({ namespace, name: "a" }, text(first).slice(-48));
  put("a", [{ digest: digest("1") }, { digest: digest("2") }]);
  const sentBy = (headers: Record<string, string>, url = "/ws") => {
    const finding = keys.sentBy({ headers, url }, "10.0.0.1");
    clock.advance(200);
    return finding;
  };
  const [one, other] = [digest("1"), digest("2")].map((each) => ({ key: "team-a/a", digest: each }));
  expect(await sentBy({ "x-api-key": text("1") })).toEqual([one]);
  expect(await sentBy({ authorization: `bearer ${text("2")}`, "x-api-key": text("1") })).toEqual([one, other]);
  expect(await sentBy({}, `/ws?rows=1&token=${text("2")}`)).toEqual([other]);
  for (const none of [text("3"), "e2b_00", "", "%"]) expect(await sentBy({ "x-api-key": none })).toEqual([]);
});

it("waits for a value that is created while the watch of the keys reconnects", async () => {
  await followed();
  const digest = digestOf(1);
  server.refuse({ times: 1, httpStatus: 503 });
  server.breakWatches();
  await eventually(() => apiKeys.informer.isInterrupted).toBe(true);
  const finding = keys.find(namespace, idOf("a", digest));
  let found: unknown = "waiting";
  void finding.then((value) => (found = value));
  clock.advance(199);
  await Promise.resolve();
  expect(found).toBe("waiting");
  clock.advance(2_000);
  put("a", [{ digest }]);
  expect(await finding).toEqual({ key: "team-a/a", digest });
  const missing = keys.find(namespace, idOf("b", digest));
  clock.advance(5_000);
  expect(await missing).toBeUndefined();
});

it("lets no namespace take all the places in which requests wait for unknown values", async () => {
  await followed();
  const find = (inNamespace: string, name: string) =>
    keys.find(inNamespace, keyValueId({ key: `${inNamespace}/${name}`, digest: digestOf(1) }));
  const many = Array.from({ length: 100 }, (_, at) => find("team-b", `${at}`));
  // Those above the share of the namespace do not wait.
  expect(await Promise.all(many.slice(25))).toEqual(Array(75).fill(undefined));
  const appearing = find(namespace, "a");
  put("a", [{ digest: digestOf(1) }]);
  expect(await appearing).toBeDefined();
  clock.advance(200);
  await Promise.all(many);
});

it("refuses while the keys are not known, and after the API server has been silent for five minutes", async () => {
  const id = idOf("a", digestOf(1));
  const refuses = async () => {
    await expect(keys.find(namespace, id)).rejects.toMatchObject(unknown);
    expect(() => keys.signers(namespace)).toThrow(expect.objectContaining(unknown) as Error);
  };
  server.refuse({ times: 1, httpStatus: 403 });
  follow();
  await refuses();
  await eventually(() => server.count("list")).toBe(1);
  await eventually(() => {
    clock.advance(100);
    return server.watchers;
  }).toBe(1);
  put("a", [{ digest: digestOf(1) }]);
  expect(await keys.find(namespace, id)).toBeDefined();
  server.stallWatches();
  clock.advance(200_000);
  expect(await keys.find(namespace, id)).toBeDefined();
  clock.advance(100_000);
  await refuses();
  await eventually(() => {
    clock.advance(100);
    server.bookmark();
    return resultOr(() => keys.signers(namespace).length, -1);
  }).not.toBe(-1);
});

it("tries the values of the oldest keys first, and no more than its limit", async () => {
  await followed();
  put("b", [{ digest: digestOf(1) }], "2026-01-01T00:00:02Z");
  put("a", [{ digest: digestOf(2) }], "2026-01-01T00:00:02Z");
  const oldest = put("c", [{ digest: digestOf(3) }, { digest: digestOf(4) }], "2026-01-01T00:00:01Z");
  const numbers = () => keys.signers(namespace).map(({ value: { digest } }) => Number.parseInt(digest.slice(-4), 16));
  expect(numbers()).toEqual([3, 4, 2, 1]);
  expect(keys.signers("team-b")).toEqual([]);
  remove(oldest);
  expect(numbers()).toEqual([2, 1]);
  for (let number = 5; number < mostSigners + 5; number++) put(`n-${number}`, [{ digest: digestOf(number) }]);
  expect([numbers().length, numbers().includes(1)]).toEqual([mostSigners, false]);
});
