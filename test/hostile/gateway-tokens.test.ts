import { createHmac, generateKeyPairSync, randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { SignJWT } from "jose";
import { afterAll, beforeAll, expect, it } from "vitest";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../../src/api/names/system-names.ts";
import { systemClock } from "../../src/base/clock.ts";
import { guestAccessToken, serverAccessToken, trafficAccessToken } from "../../src/cell/client/cell-token.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { ApiLine } from "../cluster/api-line.ts";
import { openControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { accountToken, allowToReach, ask, startGateway } from "../setup/gateway.ts";
import { GatewayWorld, namespace } from "./gateway-world.ts";

/** Clients with stolen, forged and made-up tokens, at a real API server. */
let world: GatewayWorld;
let token: string;

const at = { id: `${namespace}--a`, port: 8000 };
const account = { namespace, name: "agent" };

beforeAll(async () => {
  world = await GatewayWorld.open();
  await world.sandbox("a", (stream) => {
    stream.once("data", () => stream.end("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
  });
  token = await accountToken(world.client, account);
  await allowToReach(world.client, namespace, account);
});
afterAll(() => world.close());

/** A token with the header and the claims of a good one, with these changes. */
async function forged(claims: object = {}, kid?: string): Promise<string> {
  const [header, payload] = token
    .split(".")
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, string>);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return new SignJWT({ ...payload, ...claims })
    .setProtectedHeader({ alg: "RS256", kid: kid ?? header?.["kid"] ?? "" })
    .sign(privateKey);
}

it("rejects forged and made-up tokens without a request to the API server", async () => {
  const gateway = await world.startGateway();
  const statusOf = async (own: string) => (await ask(gateway, at, { token: own })).status;
  expect(await statusOf(token)).toBe(200);
  const reviews = () => gateway.reviews();
  const before = await reviews();
  expect(before).toBe(1);
  const unsigned = token.split(".").slice(0, 2).join(".");
  const tokens = [
    ...Array.from({ length: 50 }, (_, index) => `made-up-${index}`),
    `${unsigned}.`,
    `${unsigned}.${createHmac("sha256", "x").update(unsigned).digest("base64url")}`,
    await forged(),
    await forged({ aud: "https://kubernetes.default.svc" }),
    await forged({}, "made-up"),
    await accountToken(world.client, account, "https://kubernetes.default.svc"),
  ];
  for (const own of tokens) expect([own.slice(0, 20), await statusOf(own)]).toEqual([own.slice(0, 20), 401]);
  expect(await reviews()).toBe(before);
  expect(await gateway.metric('ramet_gateway_refusals_total{reason="token"}')).toBe(tokens.length);
  expect(await statusOf(token)).toBe(200);
  await gateway.child.kill();
});

it("rejects the tokens of another cluster, also of a namespace and an account with the same names", async () => {
  const other = await openControlPlane();
  const client = new KubeClient(other.connection);
  await makeNamespace(client, namespace);
  const foreign = await accountToken(client, account);
  const gateway = await world.startGateway();
  expect((await ask(gateway, at, { token: foreign })).status).toBe(401);
  expect((await ask(gateway, { ...at, id: await world.uidOf("a") }, { token: foreign })).status).toBe(401);
  expect((await ask(gateway, at, { token })).status).toBe(200);
  expect(await gateway.reviews()).toBe(1);
  await gateway.child.kill();
  await client.close();
  await other.stop();
});

it("rejects a token of a deleted account, which only the API server can tell", async () => {
  const gateway = await world.startGateway();
  const gone = { namespace, name: "gone" };
  const own = await accountToken(world.client, gone);
  await world.deleteAccount(gone);
  expect((await ask(gateway, at, { token: own })).status).toBe(401);
  expect(await gateway.reviews()).toBe(1);
  await gateway.child.kill();
});

it("rejects a token from the moment it expires, although it was accepted before", async () => {
  let later = 0;
  const clock = { ...systemClock, now: () => new Date(Date.now() + later) };
  const client = new KubeClient(world.connection, { clock });
  const gateway = await startGateway(client);
  expect((await ask(gateway, at, { token })).status).toBe(200);
  later = 24 * 60 * 60 * 1000;
  expect((await ask(gateway, at, { token })).status).toBe(401);
  gateway.end();
  await gateway.ended;
  await client.close();
});

it("tells a client without permission nothing about the owner of a UID, not even whether it exists", async () => {
  const gateway = await world.startGateway();
  const stranger = await accountToken(world.client, { namespace, name: "stranger" });
  const foreign = await world.uidOf("a");
  const missing = "11111111-2222-4333-8444-555555555555";
  const [one, other] = await Promise.all(
    [foreign, missing].map(async (id) => {
      const { status, text } = await ask(gateway, { ...at, id }, { token: stranger });
      return [status, text.replaceAll(id, "the id")];
    }),
  );
  expect(one).toEqual(other);
  expect((await ask(gateway, { ...at, id: foreign }, { token })).status).toBe(200);
  await gateway.child.kill();
});

it("lets no client occupy all reviews, if the API server decides about every token", async () => {
  const line = await ApiLine.open(world.connection.server);
  const client = new KubeClient({ ...world.connection, server: line.server });
  const gateway = await startGateway(client, { reviewOnly: true, trustedProxies: ["127.0.0.0/8"] });
  const asking = (own: string, from: string) =>
    ask(gateway, at, { token: own, headers: { "x-forwarded-for": from } }).then(({ status }) => status);
  line.hold();
  const early: number[] = [];
  const flood = Array.from({ length: 100 }, async (_, index) => {
    const status = await asking(`made-up-${index}`, "192.0.2.1");
    early.push(status);
    return status;
  });
  // Those beyond the limit are refused while the others wait for the API server.
  await expect.poll(() => early).toEqual(Array(36).fill(503));
  const honest = asking(token, "192.0.2.2");
  line.release();
  expect(await honest).toBe(200);
  const answers = await Promise.all(flood);
  expect(answers.filter((status) => status === 503)).toHaveLength(36);
  expect(answers.filter((status) => status === 401)).toHaveLength(64);
  gateway.end();
  await gateway.ended;
  await client.close();
  await line.close();
});

it("sends the guest's token for clients with the right exec only, and no token that a client brings", async () => {
  await world.sandbox("guest", echo, { publicPorts: [8000] });
  await world.sandbox("public", echo, { publicPorts: [49983] });
  const [executor, proxier] = [
    { namespace, name: "executor" },
    { namespace, name: "proxier" },
  ];
  const [exec, proxy, none] = [
    await accountToken(world.client, executor),
    await accountToken(world.client, proxier),
    await accountToken(world.client, { namespace, name: "stranger" }),
  ];
  await allowToReach(world.client, namespace, executor, "exec");
  await allowToReach(world.client, namespace, proxier, "proxy");
  const gateway = await world.startGateway();
  const uid = await world.uidOf("a");
  const sent = async (
    own: string | undefined,
    headers: Record<string, string> = {},
    sandbox = "guest",
    port = 49983,
  ) => {
    const to = { id: `${namespace}--${sandbox}`, port };
    const { status, text } = await ask(gateway, to, {
      ...(own !== undefined && { token: own }),
      path: "/files",
      headers,
    });
    return status === 200 ? [...text.matchAll(/^x-access-token: (.*)\r$/gim)].map(([, value]) => value) : status;
  };
  const own = { "x-access-token": "own" };

  // The controllers have not created the secret of the guests.
  expect(await sent(exec)).toBe(503);
  for (const client of [exec, proxy]) expect(await sent(client, own)).toEqual(["own"]);
  expect(await sent(undefined, own, "public")).toEqual(["own"]);

  const secret = randomBytes(32);
  const metadata = { name: guestKeySecret, namespace: systemNamespace };
  const data = { [guestSecretEntry]: secret.toString("base64") };
  await world.client.resource(coreResources.secrets).create({ apiVersion: "v1", kind: "Secret", metadata, data });
  const right = guestAccessToken(secret, await world.uidOf("guest"));
  expect(await sent(exec)).toEqual([right]);
  expect(await sent(exec, own)).toEqual([right]);
  expect(await sent(exec, { ...own, connection: "x-access-token" })).toEqual([right]);
  // The right exec opens no other port, and the right proxy brings no token.
  expect(await sent(exec, {}, "a", 8000)).toBe(403);
  expect(await sent(exec, own, "guest", 8000)).toEqual(["own"]);
  expect(await sent(proxy)).toEqual([]);
  expect(await sent(proxy, own)).toEqual(["own"]);
  expect(await sent(none)).toBe(403);
  expect(await sent(undefined)).toBe(401);
  // A sandbox's own tokens, with the secret of another cluster.
  for (const own of [secret, randomBytes(32)]) {
    const status = own === secret ? 200 : 401;
    const headers = {
      "e2b-traffic-access-token": trafficAccessToken(own, uid),
      "x-access-token": serverAccessToken(own, uid),
    };
    for (const port of [8000, 49983, 49999])
      expect([port, (await ask(gateway, { id: `${namespace}--a`, port }, { headers })).status]).toEqual([port, status]);
  }
  for (const client of [undefined, none, proxy, "made-up"]) expect(await sent(client, {}, "public")).toEqual([]);
  expect(await sent(exec, {}, "public")).toEqual([guestAccessToken(secret, await world.uidOf("public"))]);
  await gateway.child.kill();

  const without = await world.startGateway(["--no-exec"]);
  const asked = (caller: string) => ask(without, { id: `${namespace}--guest`, port: 49983 }, { token: caller });
  expect([(await asked(exec)).status, (await asked(proxy)).status]).toEqual([403, 200]);
  await without.child.kill();
});

/** Answers with the head of the request. */
function echo(stream: Duplex): void {
  stream.once("data", (head: Buffer) => {
    stream.end(`HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${head.length}\r\n\r\n${head.toString()}`);
  });
}
