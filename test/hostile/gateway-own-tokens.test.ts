import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, constants } from "node:http2";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { keyValueId } from "../../src/api/keys/api-key-text.ts";
import { type ApiKey, apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../../src/api/names/system-names.ts";
import { rametApiVersion } from "../../src/api/schema/kind.ts";
import {
  clientAccessToken,
  type ClientTokenUse,
  guestAccessToken,
  serverAccessToken,
  trafficAccessToken,
} from "../../src/cell/client/cell-token.ts";
import { gatewayRights } from "../../src/install/http-server-rights.ts";
import { roles } from "../../src/install/rights.ts";
import { silentLog } from "../../src/base/log.ts";
import { explicitConnection } from "../../src/kube/connection.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { ask, type Question, startGateway } from "../setup/gateway.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { serviceAccounts, tokenOf } from "../setup/service-accounts.ts";
import { untilAllowed, userOf } from "../setup/until-allowed.ts";
import { type GatewayProcess, GatewayWorld, head, namespace, upgrade } from "./gateway-world.ts";

/** Clients without a token for gateways, as E2B's SDKs are, with right, wrong, foreign, forged, reused and revoked tokens. */
let world: GatewayWorld;
let gateway: GatewayProcess;

const secret = randomBytes(32);
/** By the name of a sandbox. */
const uids = new Map<string, string>();
const sandboxes: Readonly<Record<string, string>> = { a: "8000", b: "", open: "*", entrances: "49983, 49999" };

beforeAll(async () => {
  world = await GatewayWorld.open();
  const metadata = { name: guestKeySecret, namespace: systemNamespace };
  const data = { [guestSecretEntry]: secret.toString("base64") };
  await world.client.resource(coreResources.secrets).create({ apiVersion: "v1", kind: "Secret", metadata, data });
  for (const [name, publicPorts] of Object.entries(sandboxes)) {
    await world.sandbox(name, echo, { publicPorts });
    uids.set(name, await world.uidOf(name));
  }
  await world.sandbox("stream", endless);
  uids.set("stream", await world.uidOf("stream"));
  await makeNamespace(world.client, "other");
  await makeKey("agent", [{ digest }]);
  gateway = await world.startGateway();
});
afterAll(async () => {
  await gateway.child.kill();
  await world.close();
});

/** Answers with the head of the request. */
function echo(stream: Duplex): void {
  stream.once("data", (head: Buffer) => {
    stream.end(`HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${head.length}\r\n\r\n${head.toString()}`);
  });
}

const uidOf = (name: string): string => uids.get(name) ?? "";
/** The id of E2B's SDKs. */
const idOf = (name: string): string => uidOf(name).replaceAll("-", "");
const digest = aDigest();
/** The token that a client gets from the client API. @param key the name of its key and the digest of its value */
function clientToken(use: ClientTokenUse, name: string, key = { name: "agent", namespace, digest }): string {
  const valueId = keyValueId({ key: `${key.namespace}/${key.name}`, digest: key.digest });
  return clientAccessToken(secret, { use, sandboxUid: uidOf(name), valueId });
}
const guestToken = (name: string): string => clientToken("enter", name);
const trafficToken = (name: string): string => clientToken("traffic", name);

function aDigest(): string {
  return `sha256:${randomBytes(32).toString("hex")}`;
}

async function makeKey(name: string, digests: ApiKey["spec"]["digests"], inNamespace = namespace): Promise<void> {
  const metadata = { name, namespace: inNamespace };
  const spec = { serviceAccountName: "agent", digests };
  await world.client.of(apiKeyKind).create({ apiVersion: rametApiVersion, kind: "ApiKey", metadata, spec });
}

/** A response: the status, and the JSON of an error of the gateway. */
async function answerOf(id: string, port: number, question: Question = {}) {
  const { status, text } = await ask(gateway, { id, port }, question);
  return { status, ...(status !== 200 && { body: JSON.parse(text) as Record<string, unknown> }) };
}
const statusOf = async (id: string, port: number, question: Question = {}) =>
  (await answerOf(id, port, question)).status;
const withGuest = (token: string) => ({ headers: { "x-access-token": token } });
const withTraffic = (token: string) => ({ headers: { "e2b-traffic-access-token": token } });

/** The signature of a link, as E2B's SDKs make it. */
function signed(parts: string[]): string {
  return `v1_${createHash("sha256").update(parts.join(":")).digest("base64").replaceAll("=", "")}`;
}

const missing = "11111111222243338444555555555555";

it("opens the guest's port and the code interpreter's with the token of this sandbox only", async () => {
  for (const port of [49983, 49999]) {
    for (const id of [idOf("a"), uidOf("a"), `${namespace}--a`]) {
      const status = (question?: Question) => statusOf(id, port, question);
      expect([port, id, await status(withGuest(guestToken("a")))]).toEqual([port, id, 200]);
      const wrong = [guestToken("b"), guestToken("a").slice(0, -1), `${guestToken("a")} `.repeat(2), "x".repeat(8000)];
      for (const token of wrong) expect([port, id, await status(withGuest(token))]).toEqual([port, id, 401]);
      expect(await status()).toBe(401);
    }
  }
  // The traffic token, which a web page may know, does not open the guest.
  expect(await statusOf(idOf("a"), 49983, withTraffic(trafficToken("a")))).toBe(401);
  expect(await statusOf(idOf("a"), 49983, withGuest(trafficToken("a")))).toBe(401);
  // Calls of the code interpreter's SDKs that run no code have the traffic token only.
  expect(await statusOf(idOf("a"), 49999, withTraffic(trafficToken("a")))).toBe(200);
  expect(await statusOf(idOf("a"), 49999, withTraffic(trafficToken("b")))).toBe(401);
});

it("opens other ports with the traffic token of this sandbox only", async () => {
  expect(await statusOf(idOf("a"), 9000, withTraffic(trafficToken("a")))).toBe(200);
  expect(await statusOf(`${namespace}--a`, 9000, withTraffic(trafficToken("a")))).toBe(200);
  for (const question of [
    withTraffic(trafficToken("b")),
    withTraffic(guestToken("a")),
    withGuest(guestToken("a")),
    withGuest(trafficToken("a")),
    {},
  ])
    expect(await statusOf(idOf("a"), 9000, question)).toBe(403);
  expect(await statusOf(`${namespace}--a`, 9000, withTraffic(trafficToken("b")))).toBe(401);
  // Who can enter the sandbox can also read what Ramet reports about it.
  expect(await statusOf(idOf("a"), 49981, withGuest(guestToken("a")))).toBe(200);
  for (const question of [withTraffic(trafficToken("a")), withGuest(guestToken("b")), {}])
    expect(await statusOf(idOf("a"), 49981, question)).toBe(401);
});

it("never passes the traffic token on, and passes the header of the guest's token on as it came to other ports", async () => {
  const headers = { "e2b-traffic-access-token": trafficToken("a"), "x-access-token": "of the program" };
  const { text } = await ask(gateway, { id: idOf("a"), port: 9000 }, { headers });
  expect(text).not.toContain(trafficToken("a"));
  expect(text).toContain("x-access-token: of the program");
});

it("keeps the ports through which clients enter closed if all ports are public", async () => {
  for (const port of [1, 8000, 65535]) expect(await statusOf(idOf("open"), port)).toBe(200);
  const closed = [49980, 49981, 49982, 49983, 49999].map((port) => statusOf(idOf("open"), port));
  expect(await Promise.all(closed)).toEqual([403, 401, 400, 401, 401]);
  for (const port of [49983, 49999]) expect(await statusOf(idOf("entrances"), port)).toBe(200);
});

/** Keeps what it gets open: requests, and connections of other protocols. */
function endless(stream: Duplex): void {
  stream.once("data", (request: Buffer) => {
    const isUpgrade = request.includes("Upgrade: websocket");
    const first = isUpgrade ? "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket" : "200 OK";
    stream.write(`HTTP/1.1 ${first}\r\n${isUpgrade ? "" : "Transfer-Encoding: chunked\r\n"}\r\n5\r\nhello\r\n`);
  });
}

/** How a value of a key stops working. */
const revocations: Record<string, (name: string, value: string) => Promise<unknown>> = {
  "its key was deleted": (name) => world.client.of(apiKeyKind).delete({ namespace, name }),
  "its key was rotated": (name) => setDigests(name, [{ digest: aDigest() }]),
  "its key was rotated and it expires": (name, value) =>
    setDigests(name, [{ digest: aDigest() }, { digest: value, expiresAt: new Date(Date.now() + 1_000).toISOString() }]),
  "its key was deleted and another one has its digest": async (name, value) => {
    await world.client.of(apiKeyKind).delete({ namespace, name });
    await makeKey(`copy-of-${name}`, [{ digest: value }]);
  },
};

function setDigests(name: string, digests: ApiKey["spec"]["digests"]): Promise<unknown> {
  return world.client.of(apiKeyKind).mergePatch({ namespace, name }, { spec: { digests } });
}

describe.each(Object.entries(revocations))("a token of a client, after %s,", (how, revoke) => {
  /** Makes a key that the gateway knows. */
  async function knownKey(): Promise<{ name: string; namespace: string; digest: string }> {
    const key = { name: `key-${randomBytes(4).toString("hex")}`, namespace, digest: aDigest() };
    await makeKey(key.name, [{ digest: key.digest }]);
    await expect.poll(() => statusOf(idOf("a"), 49983, withGuest(clientToken("enter", "a", key)))).toBe(200);
    return key;
  }

  it("opens nothing but what its client can share: ports that are not public", async () => {
    const key = await knownKey();
    const [enter, traffic] = [clientToken("enter", "a", key), clientToken("traffic", "a", key)];
    const signature = signed(["/tmp/x", "read", "user", enter]);
    const link = `/files?${new URLSearchParams({ path: "/tmp/x", username: "user", signature }).toString()}`;
    const statuses = () =>
      Promise.all([
        statusOf(idOf("a"), 49983, withGuest(enter)),
        statusOf(idOf("a"), 49999, withGuest(enter)),
        statusOf(idOf("a"), 49981, withGuest(enter)),
        statusOf(idOf("a"), 49983, { path: link }),
        statusOf(idOf("a"), 49999, withTraffic(traffic)),
        statusOf(idOf("a"), 9000, withTraffic(traffic)),
      ]);
    expect(await statuses()).toEqual([200, 200, 200, 200, 200, 200]);
    await revoke(key.name, key.digest);
    await expect.poll(statuses, { timeout: 10_000 }).toEqual([401, 401, 401, 401, 401, 200]);
    expect(await statusOf(idOf("a"), 49983, withGuest(guestToken("a")))).toBe(200);
  });

  it("has no open requests, connections and streams", async () => {
    const key = await knownKey();
    const token = `X-Access-Token: ${clientToken("enter", "stream", key)}`;
    const asked: [number, string[]][] = [
      [49983, [token]],
      [49981, [token]],
      [49999, [token]],
      [49999, [token, ...upgrade]],
      [49999, [`E2b-Traffic-Access-Token: ${clientToken("traffic", "stream", key)}`]],
    ];
    const open = asked.map(async ([port, headers]) => {
      const connection = await gateway.connect();
      connection.socket.write(head("stream", port, headers));
      await connection.until("hello");
      return connection;
    });
    const connections = await Promise.all(open);
    const client = connect(`http://127.0.0.1:${gateway.port}`);
    onTestFinished(() => {
      client.destroy();
    });
    const inner = { "e2b-sandbox-id": idOf("stream"), "e2b-sandbox-port": "49983" };
    const stream = client.request({ ...inner, "x-access-token": clientToken("enter", "stream", key) });
    stream.on("error", () => undefined);
    await once(stream, "data");
    const other = await gateway.connect();
    other.socket.write(head("stream", 49983, [`X-Access-Token: ${guestToken("stream")}`]));
    await other.until("hello");
    const streamClosed = new Promise((resolve) => stream.once("close", resolve));

    await revoke(key.name, key.digest);
    for (const { closed } of connections) await closed;
    await streamClosed;
    // A client does not take what it got for the whole response.
    expect([how, stream.rstCode]).toEqual([how, constants.NGHTTP2_INTERNAL_ERROR]);
    expect(connections.map(({ received }) => received.endsWith("0\r\n\r\n"))).not.toContain(true);
    expect(other.socket.closed).toBe(false);
    other.socket.destroy();
  });
});

it("accepts no token of a key in another namespace, also with a digest that counts there", async () => {
  const value = aDigest();
  await makeKey("foreign", [{ digest: value }], "other");
  await makeKey("known", [{ digest: aDigest() }]);
  for (const inNamespace of ["other", namespace]) {
    const token = clientToken("enter", "a", { name: "foreign", namespace: inNamespace, digest: value });
    expect(await statusOf(idOf("a"), 49983, withGuest(token))).toBe(401);
    const signature = signed(["/tmp/x", "read", "", token]);
    const path = `/files?${new URLSearchParams({ path: "/tmp/x", signature }).toString()}`;
    expect(await statusOf(idOf("a"), 49983, { path })).toBe(401);
  }
});

it("refuses the tokens of clients while it cannot read the keys, and serves others", async () => {
  const account = { namespace: systemNamespace, name: "without-keys" };
  const accounts = world.client.resource(serviceAccounts);
  await accounts.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  const { everywhere, inSystem } = gatewayRights(true);
  const others = everywhere.filter(({ resources }) => resources?.includes("apikeys") !== true);
  expect(others).toHaveLength(everywhere.length - 1);
  for (const manifest of roles(account, { everywhere: others, inSystem })) {
    const { kind, metadata } = manifest;
    const rbac = { group: "rbac.authorization.k8s.io", version: "v1", kind };
    const ref: ResourceRef = {
      ...rbac,
      plural: `${kind.toLowerCase()}s`,
      namespaced: metadata.namespace !== undefined,
    };
    await world.client.resource(ref).create(manifest);
  }
  await untilAllowed(world.client, { user: userOf(account), namespace: systemNamespace, rules: inSystem });
  const { server, ca = "" } = world.connection;
  const token = await tokenOf(world.client, account);
  const client = new KubeClient(explicitConnection({ server, ca, token }));
  const lines: string[] = [];
  const log = Object.assign({}, silentLog, { error: (_: unknown, line: string) => lines.push(line) });
  const without = await startGateway(client, { log });
  onTestFinished(async () => {
    without.end();
    await without.ended;
    await client.close();
  });
  const answer = async (port: number, question: Question) => {
    const { status, headers, text } = await ask(without, { id: idOf("a"), port }, question);
    return status === 200 ? status : [status, headers["retry-after"], JSON.parse(text) as unknown];
  };
  const message = "The gateway cannot check the access token: it cannot read the API keys";
  const refused = [503, "1", { code: 503, message }];
  expect(await answer(49983, withGuest(guestToken("a")))).toEqual(refused);
  expect(await answer(49999, withTraffic(trafficToken("a")))).toEqual(refused);
  expect(await answer(49983, { path: `/files?path=a&signature=v1_${"a".repeat(43)}` })).toEqual(refused);
  expect(await answer(49983, withGuest(`${guestToken("a")}a`))).toContain(401);
  expect(await answer(49983, withGuest(serverAccessToken(secret, uidOf("a"))))).toBe(200);
  expect(await answer(9000, withTraffic(trafficToken("a")))).toBe(200);
  expect(await answer(8000, {})).toBe(200);
  expect(lines).toEqual([expect.stringMatching(/cannot read the API keys$/)]);
});

it("answers health checks without a token to whoever knows the UID, and nothing else", async () => {
  for (const port of [49983, 49999]) {
    expect(await statusOf(idOf("a"), port, { path: "/health" })).toBe(200);
    expect(await statusOf(`${namespace}--a`, port, { path: "/health" })).toBe(401);
    for (const path of ["//health", "/health/", "/health?x", "/health/../envs", "/HEALTH", "/envs"])
      expect([path, await statusOf(idOf("a"), port, { path })]).toEqual([path, 401]);
    expect(await statusOf(idOf("a"), port, { path: "/health", method: "POST" })).toBe(401);
  }
});

it("sends the guest its own token instead of a client's, and signs links again with it", async () => {
  const own = guestAccessToken(secret, uidOf("a"));
  const sent = async (port: number, question: Question) => (await ask(gateway, { id: idOf("a"), port }, question)).text;
  for (const port of [49983, 49999, 49981]) {
    const got = await sent(port, withGuest(guestToken("a")));
    expect(got).toContain(`x-access-token: ${own}\r\n`);
    expect(got).not.toContain(guestToken("a"));
  }
  const headers = [`X-Access-Token: ${guestToken("a")}`, ...upgrade];
  expect(await gateway.exchange(head("a", 49999, headers))).toContain(`x-access-token: ${own}\r\n`);
  // The guest gets the values that were checked.
  const signature = signed(["/tmp/ä b", "read", "user", guestToken("a")]);
  const link = `/files?path=%2Ftmp/%c3%a4+b&username=user&signature=${encodeURIComponent(signature)}&path=/etc/shadow`;
  const expected = new URLSearchParams({ path: "/tmp/ä b", username: "user" });
  expected.append("signature", signed(["/tmp/ä b", "read", "user", own]));
  expected.append("path", "/etc/shadow");
  expect(await sent(49983, { path: link })).toMatch(`GET /files?${expected.toString()} HTTP/1.1\r\n`);
  // The guest's port can be public, and the guest requires its token.
  const { text } = await ask(gateway, { id: idOf("entrances"), port: 49983 }, withGuest(guestToken("entrances")));
  expect(text).toContain(`x-access-token: ${guestAccessToken(secret, uidOf("entrances"))}\r\n`);
});

it("accepts the tokens of the client API, and not that of the guest, which programs in the sandbox can find", async () => {
  const server = withGuest(serverAccessToken(secret, uidOf("a")));
  for (const port of [49983, 49999, 49981]) {
    expect(await statusOf(idOf("a"), port, server)).toBe(200);
    expect(await statusOf(idOf("a"), port, withGuest(guestAccessToken(secret, uidOf("a"))))).toBe(401);
    expect(await statusOf(idOf("b"), port, server)).toBe(401);
  }
  expect(await statusOf(idOf("a"), 9000, withTraffic(trafficAccessToken(secret, uidOf("a"))))).toBe(200);
});

it("accepts a signed link for its sandbox, path, user and operation until it expires", async () => {
  const link = (given: Record<string, string>) => `/files?${new URLSearchParams(given).toString()}`;
  const now = Math.floor(Date.now() / 1000);
  const later = String(now + 3600);
  const signature = signed(["/tmp/x", "read", "user", guestToken("a"), later]);
  const good = { path: "/tmp/x", username: "user", signature, signature_expiration: later };
  const status = (given: Record<string, string>, more: Question = {}, id = idOf("a")) =>
    statusOf(id, 49983, { path: link(given), ...more });
  expect(await status(good)).toBe(200);
  expect(await status(good, {}, `${namespace}--a`)).toBe(200);
  const { signature_expiration: _, ...unlimited } = good;
  expect(await status({ ...unlimited, signature: signed(["/tmp/x", "read", "user", guestToken("a")]) })).toBe(200);

  // Another sandbox, operation, path, user or expiry.
  expect(await status(good, {}, idOf("b"))).toBe(401);
  expect(await status(good, { method: "POST", body: "x" })).toBe(401);
  expect(await status({ ...good, path: "/etc/shadow" })).toBe(401);
  expect(await status({ ...good, username: "root" })).toBe(401);
  expect(await status({ ...good, signature_expiration: String(now + 7200) })).toBe(401);
  expect(await status(unlimited)).toBe(401);
  // A second value must not be the one that counts inside the sandbox.
  expect(await statusOf(idOf("a"), 49983, { path: `/files?path=/etc/shadow&${link(good).slice(7)}` })).toBe(401);
  // A wrong token is not saved by a signature, and a signature opens nothing but files.
  expect(await status(good, withGuest("wrong"))).toBe(401);
  const query = link(good).slice("/files".length);
  for (const path of ["/files/compose", "/files/", "//files", "/envs", "/process.Process/List"])
    expect([path, await statusOf(idOf("a"), 49983, { path: path + query })]).toEqual([path, 401]);
  expect(await statusOf(idOf("a"), 49999, { path: link(good) })).toBe(401);

  const past = String(now - 1);
  const expired = {
    ...good,
    signature_expiration: past,
    signature: signed(["/tmp/x", "read", "user", guestToken("a"), past]),
  };
  // E2B's SDK tests compare the whole body.
  expect(await answerOf(idOf("a"), 49983, { path: link(expired) })).toEqual({
    status: 401,
    body: { code: 401, message: "signature is already expired" },
  });
});

it("serves no internal route of envd, with whatever token", async () => {
  for (const path of ["/init", "//init", "/%69nit", "/UPGRADE/", "/freeze?x=1"]) {
    const status = await statusOf(idOf("a"), 49983, { path, method: "POST", ...withGuest(guestToken("a")) });
    expect([path, status]).toEqual([path, 404]);
  }
});

it("answers in E2B's form: 502 for a UID that no sandbox has, 403 for a port that is not public", async () => {
  expect(await answerOf(missing, 49983, withGuest(guestToken("a")))).toEqual({
    status: 502,
    body: expect.objectContaining({ sandboxId: missing, port: 49983, code: 502, reason: "NotFound" }) as object,
  });
  expect(await statusOf(missing, 49983, { path: "/health" })).toBe(502);
  expect(await statusOf(missing, 9000)).toBe(502);
  expect(await answerOf(idOf("b"), 8000)).toEqual({
    status: 403,
    body: expect.objectContaining({ sandboxId: idOf("b"), port: 8000, code: 403, reason: "Forbidden" }) as object,
  });
});

it("tells clients that know no UID nothing: not which names exist, and not the names of sandboxes", async () => {
  for (const port of [8001, 49983, 49999]) {
    for (const question of [
      {},
      withGuest("wrong"),
      withTraffic("wrong"),
      { path: "/health" },
      { path: "/files?signature=x" },
    ]) {
      const [known, unknown] = await Promise.all(
        ["b", "none"].map((name) => ask(gateway, { id: `${namespace}--${name}`, port }, question)),
      );
      const without = (text = "", name: string) => text.replaceAll(`${namespace}--${name}`, "the id");
      expect([known?.status, without(known?.text, "b")]).toEqual([unknown?.status, without(unknown?.text, "none")]);
      expect(known?.status).toBe(401);
    }
  }
  await world.client
    .resource({
      group: "agents.kruise.io",
      version: "v1alpha1",
      plural: "sandboxes",
      kind: "Sandbox",
      namespaced: true,
    })
    .mergePatch({ namespace, name: "b" }, { status: { phase: "Paused", conditions: [] } }, { subresource: "status" });
  const paused = () => ask(gateway, { id: idOf("b"), port: 49983 }, { path: "/health" });
  await expect.poll(async () => (await paused()).status).toBe(502);
  expect((await paused()).text).not.toContain(`in ${namespace}`);
});

it("accepts tokens for gateways only, if it may not read the secret of the guests", async () => {
  const without = await world.startGateway(["--no-exec"]);
  const status = async (port: number, question: Question) =>
    (await ask(without, { id: idOf("a"), port }, question)).status;
  expect(await status(49983, withGuest(guestToken("a")))).toBe(401);
  expect(await status(9000, withTraffic(trafficToken("a")))).toBe(401);
  expect(await status(8000, {})).toBe(200);
  await without.child.kill();
});
