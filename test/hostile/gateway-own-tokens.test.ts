import { createHash, randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, expect, it } from "vitest";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../../src/api/names/system-names.ts";
import { guestAccessToken, trafficAccessToken } from "../../src/cell/client/cell-token.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { ask, type Question } from "../setup/gateway.ts";
import { type GatewayProcess, GatewayWorld, namespace } from "./gateway-world.ts";

/** Clients without a token for gateways, as E2B's SDKs are, with right, wrong, foreign, forged and reused tokens. */
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
const guestToken = (name: string): string => guestAccessToken(secret, uidOf(name));
const trafficToken = (name: string): string => trafficAccessToken(secret, uidOf(name));

/** A response: the status, and the JSON of an error of the gateway. */
async function answerOf(id: string, port: number, question: Question = {}) {
  const { status, text } = await ask(gateway, { id, port }, question);
  return { status, ...(status !== 200 && { body: JSON.parse(text) as Record<string, unknown> }) };
}
const statusOf = async (id: string, port: number, question: Question = {}) =>
  (await answerOf(id, port, question)).status;
const withGuest = (token: string) => ({ headers: { "x-access-token": token } });
const withTraffic = (token: string) => ({ headers: { "e2b-traffic-access-token": token } });

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

it("never passes the traffic token on, and passes the guest's token on as it came", async () => {
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

it("answers health checks without a token to whoever knows the UID, and nothing else", async () => {
  for (const port of [49983, 49999]) {
    expect(await statusOf(idOf("a"), port, { path: "/health" })).toBe(200);
    expect(await statusOf(`${namespace}--a`, port, { path: "/health" })).toBe(401);
    for (const path of ["//health", "/health/", "/health?x", "/health/../envs", "/HEALTH", "/envs"])
      expect([path, await statusOf(idOf("a"), port, { path })]).toEqual([path, 401]);
    expect(await statusOf(idOf("a"), port, { path: "/health", method: "POST" })).toBe(401);
  }
});

it("accepts a signed link for its sandbox, path, user and operation until it expires", async () => {
  const link = (given: Record<string, string>) => `/files?${new URLSearchParams(given).toString()}`;
  const sign = (parts: string[]) =>
    `v1_${createHash("sha256").update(parts.join(":")).digest("base64").replaceAll("=", "")}`;
  const now = Math.floor(Date.now() / 1000);
  const later = String(now + 3600);
  const signature = sign(["/tmp/x", "read", "user", guestToken("a"), later]);
  const good = { path: "/tmp/x", username: "user", signature, signature_expiration: later };
  const status = (given: Record<string, string>, more: Question = {}, id = idOf("a")) =>
    statusOf(id, 49983, { path: link(given), ...more });
  expect(await status(good)).toBe(200);
  expect(await status(good, {}, `${namespace}--a`)).toBe(200);
  const { signature_expiration: _, ...unlimited } = good;
  expect(await status({ ...unlimited, signature: sign(["/tmp/x", "read", "user", guestToken("a")]) })).toBe(200);

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
    signature: sign(["/tmp/x", "read", "user", guestToken("a"), past]),
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
