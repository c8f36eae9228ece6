import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { request, WebSocket } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { systemClock } from "../../src/base/clock.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { ApiLine } from "./api-line.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { programPort, programTemplate as template } from "./gateway-program.ts";
import { accountToken, allowToReach, ask, startGateway, type Question, type RunningGateway } from "../setup/gateway.ts";

/** A real gateway before real sandboxes, and an API server that says who may reach them. */
let cluster: Cluster;
let gateway: RunningGateway;
let token: string;

const namespace = "t";
const apiVersion = "agents.kruise.io/v1alpha1";
const at = { id: "t--web", port: programPort };
const long = { timeout: 60_000 };

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  await cluster.namespace(namespace);
  gateway = await startGateway(cluster.client);
  token = await accountToken(cluster.client, { namespace, name: "agent" });
  await allowToReach(cluster.client, namespace, { namespace, name: "agent" });
  await make("web", { "ramet.dev/public-ports": "8000, 8001" });
});
afterAll(async () => {
  gateway.end();
  await gateway.ended;
  await cluster.close();
});

async function make(name: string, annotations: Record<string, string> = {}): Promise<Sandbox> {
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { name, namespace, annotations }, spec: { template } });
  return cluster.sandbox(`t/${name}`, ({ status }) => status?.phase === "Running");
}

const asked = (question: Question = {}, to = at) => ask(gateway, to, { token, ...question });

const headers = (): Record<string, string> => ({
  "e2b-sandbox-id": at.id,
  "e2b-sandbox-port": String(at.port),
  "ramet-access-token": token,
});

/** The answer's code, of one that the gateway gives itself. */
async function refusal(answer: Promise<{ status: number; text: string }>): Promise<[number, string]> {
  const { status, text } = await answer;
  return [status, (JSON.parse(text) as { code: string }).code];
}

test("a sandbox is reached as soon as its program listens", async () => {
  await expect.poll(async () => (await asked({ path: "/left" })).status, long).toBe(200);
});

test("only who may reach a sandbox does, by a token that is for gateways", async () => {
  expect(await refusal(ask(gateway, at))).toEqual([401, "Unauthorized"]);
  expect(await refusal(ask(gateway, at, { token: "stolen" }))).toEqual([401, "Unauthorized"]);
  const forApiServer = await accountToken(
    cluster.client,
    { namespace, name: "agent" },
    "https://kubernetes.default.svc",
  );
  expect(await refusal(ask(gateway, at, { token: forApiServer }))).toEqual([401, "Unauthorized"]);
  const stranger = await accountToken(cluster.client, { namespace, name: "stranger" });
  expect(await refusal(ask(gateway, at, { token: stranger }))).toEqual([403, "Forbidden"]);
  // Who may not reach sandboxes of a namespace is not told which there are.
  expect(await refusal(ask(gateway, { id: "t--none", port: 1 }, { token: stranger }))).toEqual([403, "Forbidden"]);
  expect(await refusal(ask(gateway, { id: "t--none", port: 1 }))).toEqual([401, "Unauthorized"]);
  expect((await asked({ path: "/left" })).status).toBe(200);
});

test("a sandbox is found by its UID too, and by a host", async () => {
  const { metadata } = await cluster.sandbox("t/web", () => true);
  expect((await asked({ path: "/left" }, { id: metadata.uid, port: programPort })).status).toBe(200);
  const host = `${programPort}-t--web.sandboxes.example.org`;
  const { status, text } = await plainly("/headers", { host, "ramet-access-token": token });
  expect(status).toBe(200);
  expect(text).toContain(host);
});

test("an id that two sandboxes have reaches neither, and is told who may reach both", async () => {
  await cluster.namespace("t--web");
  const make = (own: string, name: string) =>
    cluster.create({ apiVersion, kind: "Sandbox", metadata: { name, namespace: own }, spec: { template } });
  await make("t", "web--a");
  await make("t--web", "a");
  const to = { id: "t--web--a", port: programPort };
  await expect.poll(() => refusal(asked({}, to)), long).toEqual([403, "Forbidden"]);
  expect(await refusal(ask(gateway, to))).toEqual([401, "Unauthorized"]);
  const both = await accountToken(cluster.client, { namespace, name: "both" });
  await allowToReach(cluster.client, "t", { namespace, name: "both" });
  await allowToReach(cluster.client, "t--web", { namespace, name: "both" });
  const { status, text } = await ask(gateway, to, { token: both });
  expect([status, text]).toEqual([400, expect.stringContaining("both are there")]);
});

test("a public port needs no token, and no other is open for that", async () => {
  // Nothing listens there: so far it gets.
  expect(await refusal(ask(gateway, { ...at, port: 8001 }))).toEqual([502, "SandboxUnreachable"]);
  expect(await refusal(ask(gateway, at))).toEqual([401, "Unauthorized"]);
});

test("the program gets what the client sent, without what is between client and gateway", async () => {
  const more = { "x-forwarded-for": "192.0.2.7", connection: "keep-alive, x-hop", "x-hop": "1", "X-Mixed": "Case" };
  const { text } = await plainly("/headers", { ...headers(), ...more });
  const got = new Map(JSON.parse(text) as [string, string][]);
  expect(Object.fromEntries(got)).toMatchObject({
    "X-Forwarded-For": "192.0.2.7, 127.0.0.1",
    "X-Forwarded-Proto": "http",
    "X-Mixed": "Case",
  });
  expect([...got.keys()].map((name) => name.toLowerCase())).not.toContain("x-hop");
  expect(text).not.toContain(token);
  const cookies = (await asked({ path: "/cookies" })).headers;
  expect(cookies["set-cookie"]).toEqual(["a=1", "b=2"]);
  expect(cookies["x-own"]).toBeUndefined();
});

test("what is sent arrives, however it is sent, and what the program answers comes back as it is", async () => {
  const body = randomBytes(20 * 1024 * 1024);
  const digest = createHash("sha256").update(body).digest("hex");
  expect(await asked({ method: "POST", path: "/sum", body })).toMatchObject({ status: 200, text: digest });
  const parts = Array.from({ length: 20 }, (_, part) => body.subarray(part * 1024 * 1024, (part + 1) * 1024 * 1024));
  const streamed = await request(`http://127.0.0.1:${gateway.port}/sum`, {
    method: "POST",
    headers: headers(),
    body: Readable.from(parts),
  });
  expect(await streamed.body.text()).toBe(digest);
  expect(await asked({ path: "/elsewhere" })).toMatchObject({ status: 404, text: "not here" });
});

test("events come as the program sends them, and the program hears when the client has gone", async () => {
  const { body } = await request(`http://127.0.0.1:${gateway.port}/events`, { headers: headers() });
  const events = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const next = async () => ((await events.next()).value as Buffer | undefined)?.toString();
  expect(await next()).toBe("one");
  await asked({ path: "/next" });
  expect(await next()).toBe("two");
  expect(await next()).toBeUndefined();

  const endless = await request(`http://127.0.0.1:${gateway.port}/endless`, { headers: headers() });
  endless.body.on("error", () => undefined);
  endless.body.destroy();
  await expect.poll(async () => (await asked({ path: "/left" })).text, long).toBe("1");
});

test("an answer that breaks off is not taken for a whole one", async () => {
  await expect(asked({ path: "/broken" })).rejects.toMatchObject({ code: "UND_ERR_SOCKET" });
});

test("a WebSocket is carried both ways, and what is said in place of one", async () => {
  const url = `ws://127.0.0.1:${gateway.port}/ws`;
  const socket = new WebSocket(url, { headers: headers() });
  await opened(socket);
  const message = once(socket as unknown as EventTarget, "message") as Promise<[MessageEvent]>;
  socket.send("hello");
  expect((await message)[0].data).toBe("hello");
  const closed = once(socket as unknown as EventTarget, "close");
  socket.close(1000);
  await closed;

  await expect(opened(new WebSocket(url))).rejects.toThrow("the WebSocket was not opened");
  const key = { "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==" };
  const upgrade = { connection: "Upgrade", upgrade: "websocket", ...key };
  const refused = await plainly("/ws", { ...headers(), ...upgrade, "x-refuse": "yes" });
  expect(refused).toEqual({ status: 418, text: "refused" });
  const { "ramet-access-token": _, ...unknown } = headers();
  expect(await refusal(plainly("/ws", { ...unknown, ...upgrade }))).toEqual([401, "Unauthorized"]);
});

test("what cannot be reached is told apart from what the program says, and why", async () => {
  expect(await refusal(asked({}, { ...at, id: "t--none" }))).toEqual([502, "NotFound"]);
  expect(await refusal(asked({}, { ...at, port: 9001 }))).toEqual([502, "SandboxUnreachable"]);
  expect(await refusal(asked({}, { ...at, port: 49982 }))).toEqual([400, "InvalidArgument"]);
  expect(await refusal(asked({}, { ...at, port: 99_999 }))).toEqual([400, "InvalidArgument"]);
  expect(await refusal(asked({ headers: { "e2b-sandbox-port": "" } }))).toEqual([400, "InvalidArgument"]);
  // The guest answers clients; what an envd serves to its orchestrator is closed.
  expect((await asked({ path: "/health" }, { ...at, port: 49983 })).status).toBe(204);
  for (const path of ["/init", "//init", "/%69nit?x=1", "/FREEZE/", "/upgrade"]) {
    expect(await refusal(asked({ method: "POST", path }, { ...at, port: 49983 }))).toEqual([403, "Forbidden"]);
  }
  expect(await request(`http://127.0.0.1:${gateway.port}/healthz`)).toMatchObject({ statusCode: 200 });
  expect(await request(`http://127.0.0.1:${gateway.port}/`)).toMatchObject({ statusCode: 400 });
});

test("a checkpoint cuts connections that were kept, and the next request comes through", async () => {
  expect((await asked({ path: "/left" })).status).toBe(200);
  await cluster.create({
    apiVersion,
    kind: "Checkpoint",
    metadata: { name: "c", namespace },
    spec: { sandboxName: "web" },
  });
  const { status } = await cluster.checkpoint("t/c", (checkpoint) => checkpoint.status?.phase === "Succeeded");
  expect((await asked({ path: "/left" })).status).toBe(200);

  // A clone is another sandbox, at its own id.
  const restore = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  const metadata = { name: "clone", namespace, annotations: restore };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: {} });
  await cluster.sandbox("t/clone", (sandbox) => sandbox.status?.phase === "Running");
  await expect.poll(async () => (await asked({ path: "/left" }, { ...at, id: "t--clone" })).status, long).toBe(200);
});

test("a sandbox that was paused is not ready, and is reached again when it was resumed, wherever it is then", async () => {
  const { resource } = cluster.seen.sandboxes;
  const pause = (paused: boolean) => resource.mergePatch({ namespace, name: "web" }, { spec: { paused } });
  await pause(true);
  await cluster.sandbox("t/web", ({ status }) => status?.phase === "Paused");
  await expect.poll(() => refusal(asked()), long).toEqual([502, "SandboxNotReady"]);
  await pause(false);
  await cluster.sandbox("t/web", ({ status }) => status?.phase === "Running");
  await expect.poll(async () => (await asked({ path: "/left" })).status, long).toBe(200);
});

test("who was let in goes on to be while the API server does not answer, and nobody else is", async () => {
  const line = await ApiLine.open(cluster.connection.server);
  let later = 0;
  const clock = { ...systemClock, monotonicMilliseconds: () => systemClock.monotonicMilliseconds() + later };
  const client = new KubeClient({ ...cluster.connection, server: line.server }, { clock });
  const other = await startGateway(client);
  const asking = (own: string) => ask(other, at, { token: own, path: "/left" });
  const newcomer = await accountToken(cluster.client, { namespace, name: "agent" });
  expect((await asking(token)).status).toBe(200);
  line.hold();
  // More than an answer holds for by itself.
  later = 20_000;
  expect((await asking(token)).status).toBe(200);
  expect(await refusal(asking(newcomer))).toEqual([503, "Unavailable"]);
  line.release();
  await expect.poll(async () => (await asking(newcomer)).status, long).toBe(200);
  other.end();
  await other.ended;
  await client.close();
  await line.close();
});

test("what is under way when a gateway ends comes to its end, and nobody new is let in", async () => {
  const ending = await startGateway(cluster.client);
  const { body } = await request(`http://127.0.0.1:${ending.port}/events`, { headers: headers() });
  ending.end();
  await expect
    .poll(
      () =>
        ask(ending, at, { token }).then(
          () => "answered",
          (error: unknown) => (error as NodeJS.ErrnoException).code,
        ),
      long,
    )
    .toBe("ECONNREFUSED");
  await asked({ path: "/next" });
  expect(await body.text()).toBe("onetwo");
  await ending.ended;
});

/** Asks with these very headers, which other clients would change. */
async function plainly(path: string, given: Record<string, string>): Promise<{ status: number; text: string }> {
  const request = httpRequest({ host: "127.0.0.1", port: gateway.port, path, headers: given }).end();
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of answer as AsyncIterable<Buffer>) text += chunk.toString();
  return { status: answer.statusCode ?? 0, text };
}

function opened(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.addEventListener("open", () => {
      resolve();
    });
    socket.addEventListener("error", () => {
      reject(new Error("the WebSocket was not opened"));
    });
  });
}
