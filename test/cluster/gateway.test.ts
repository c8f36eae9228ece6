import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { request, WebSocket } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { keyValueId } from "../../src/api/keys/api-key-text.ts";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { rametApiVersion } from "../../src/api/schema/kind.ts";
import { EgressReport, reportsPort } from "../../src/api/wire/cell-api.ts";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../../src/api/names/system-names.ts";
import { systemClock } from "../../src/base/clock.ts";
import { clientAccessToken } from "../../src/cell/client/cell-token.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { ApiLine } from "./api-line.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { loopbackPorts, programPort, programTemplate as template } from "./gateway-program.ts";
import { accountToken, allowToReach, ask, startGateway, type Question, type RunningGateway } from "../setup/gateway.ts";

/** A real gateway with real sandboxes and an API server that authorizes clients. */
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

const askWeb = (question: Question = {}, to = at) => ask(gateway, to, { token, ...question });

const headers = (): Record<string, string> => ({
  "e2b-sandbox-id": at.id,
  "e2b-sandbox-port": String(at.port),
  "ramet-access-token": token,
});

/** The status and the reason of a response of the gateway itself. */
async function refusal(answer: Promise<{ status: number; text: string }>): Promise<[number, string]> {
  const { status, text } = await answer;
  return [status, (JSON.parse(text) as { reason: string }).reason];
}

it("proxies requests as soon as the program in the sandbox listens", async () => {
  await expect.poll(async () => (await askWeb({ path: "/disconnected" })).status, long).toBe(200);
});

it("requires a token for gateways and the permission for the sandbox", async () => {
  expect(await refusal(ask(gateway, at))).toEqual([401, "Unauthorized"]);
  expect(await refusal(ask(gateway, at, { token: "stolen" }))).toEqual([401, "Unauthorized"]);
  const forApiServer = await accountToken(
    cluster.client,
    { namespace, name: "agent" },
    "https://kubernetes.default.svc",
  );
  expect(await refusal(ask(gateway, at, { token: forApiServer }))).toEqual([401, "Unauthorized"]);
  const unauthorized = await accountToken(cluster.client, { namespace, name: "unauthorized" });
  expect(await refusal(ask(gateway, at, { token: unauthorized }))).toEqual([403, "Forbidden"]);
  // Without the permission, the response does not reveal which sandboxes exist.
  expect(await refusal(ask(gateway, { id: "t--none", port: 1 }, { token: unauthorized }))).toEqual([403, "Forbidden"]);
  expect(await refusal(ask(gateway, { id: "t--none", port: 1 }))).toEqual([401, "Unauthorized"]);
  expect((await askWeb({ path: "/disconnected" })).status).toBe(200);
});

it("serves a sandbox's egress report to clients that may connect to it", async () => {
  const to = { id: at.id, port: reportsPort };
  const { status, text } = await askWeb({}, to);
  expect(status).toBe(200);
  const before = EgressReport.parse(JSON.parse(text));
  expect((await askWeb({ path: "/metadata" })).text).toBe("denied");
  const after = EgressReport.parse(JSON.parse((await askWeb({}, to)).text));
  expect(after.connections.denied).toBe(before.connections.denied + 1);
  expect(after.refused[0]).toMatchObject({ what: "connection to 169.254.169.254:80" });
  const metrics = (await askWeb({ path: "/metrics" }, to)).text;
  expect(metrics).toContain(`ramet_egress_connections_total{result="denied"} ${after.connections.denied}\n`);
  expect(await refusal(ask(gateway, to))).toEqual([401, "Unauthorized"]);
});

it("serves a sandbox's log only to clients that may enter it", async () => {
  const to = { id: at.id, port: reportsPort };
  expect(await refusal(askWeb({ path: "/logs" }, to))).toEqual([403, "Forbidden"]);
  // As a server that normalizes paths could read it.
  expect(await refusal(askWeb({ path: "/./logs" }, to))).toEqual([403, "Forbidden"]);
});

it("finds a sandbox by its UID and by host name", async () => {
  const { metadata } = await cluster.sandbox("t/web", () => true);
  expect((await askWeb({ path: "/disconnected" }, { id: metadata.uid, port: programPort })).status).toBe(200);
  const host = `${programPort}-t--web.sandboxes.example.org`;
  const { status, text } = await rawRequest("/headers", { host, "ramet-access-token": token });
  expect(status).toBe(200);
  expect(text).toContain(host);
});

it("finds a sandbox whose name contains -- by its UID only", async () => {
  const { metadata } = await make("web--a", { "ramet.dev/public-ports": String(programPort) });
  const to = { id: metadata.uid, port: programPort };
  await expect.poll(async () => (await ask(gateway, to, { path: "/disconnected" })).status, long).toBe(200);
  const { status, text } = await ask(gateway, { ...to, id: "t--web--a" });
  expect([status, text]).toEqual([400, expect.stringContaining("Use the UID of the Sandbox")]);
});

it("requires no token for a public port, but does for other ports", async () => {
  // Nothing listens on this port, so the request passes authorization and then fails.
  expect(await refusal(ask(gateway, { ...at, port: 8001 }))).toEqual([502, "SandboxUnreachable"]);
  expect(await refusal(ask(gateway, at))).toEqual([401, "Unauthorized"]);
});

it("reaches programs that listen only on 127.0.0.1 or ::1, with the same authorization", async () => {
  const { ipv4, ipv6 } = loopbackPorts;
  expect(await askWeb({}, { ...at, port: ipv4 })).toMatchObject({ status: 200, text: "127.0.0.1" });
  expect(await askWeb({}, { ...at, port: ipv6 })).toMatchObject({ status: 200, text: "::1" });
  expect(await refusal(ask(gateway, { ...at, port: ipv4 }))).toEqual([401, "Unauthorized"]);
});

it("forwards end-to-end headers in both directions, but not hop-by-hop headers or the token", async () => {
  const more = { "x-forwarded-for": "192.0.2.7", connection: "keep-alive, x-hop", "x-hop": "1", "X-Mixed": "Case" };
  const { text } = await rawRequest("/headers", { ...headers(), ...more });
  const got = new Map(JSON.parse(text) as [string, string][]);
  expect(Object.fromEntries(got)).toMatchObject({
    "X-Forwarded-For": "192.0.2.7, 127.0.0.1",
    "X-Forwarded-Proto": "http",
    "X-Mixed": "Case",
  });
  expect([...got.keys()].map((name) => name.toLowerCase())).not.toContain("x-hop");
  expect(text).not.toContain(token);
  const cookies = (await askWeb({ path: "/cookies" })).headers;
  expect(cookies["set-cookie"]).toEqual(["a=1", "b=2"]);
  expect(cookies["x-own"]).toBeUndefined();
});

it("proxies bodies with a length and streamed bodies, and returns the program's response unchanged", async () => {
  const body = randomBytes(20 * 1024 * 1024);
  const digest = createHash("sha256").update(body).digest("hex");
  expect(await askWeb({ method: "POST", path: "/sum", body })).toMatchObject({ status: 200, text: digest });
  const parts = Array.from({ length: 20 }, (_, part) => body.subarray(part * 1024 * 1024, (part + 1) * 1024 * 1024));
  const streamed = await request(`http://127.0.0.1:${gateway.port}/sum`, {
    method: "POST",
    headers: headers(),
    body: Readable.from(parts),
  });
  expect(await streamed.body.text()).toBe(digest);
  expect(await askWeb({ path: "/elsewhere" })).toMatchObject({ status: 404, text: "not here" });
});

it("streams events immediately, and closes the connection to the program when the client disconnects", async () => {
  const { body } = await request(`http://127.0.0.1:${gateway.port}/events`, { headers: headers() });
  const events = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const next = async () => ((await events.next()).value as Buffer | undefined)?.toString();
  expect(await next()).toBe("one");
  await askWeb({ path: "/next" });
  expect(await next()).toBe("two");
  expect(await next()).toBeUndefined();

  const endless = await request(`http://127.0.0.1:${gateway.port}/endless`, { headers: headers() });
  endless.body.on("error", () => undefined);
  endless.body.destroy();
  await expect.poll(async () => (await askWeb({ path: "/disconnected" })).text, long).toBe("1");
});

it("breaks the client's connection when a response is incomplete", async () => {
  await expect(askWeb({ path: "/broken" })).rejects.toMatchObject({ code: "UND_ERR_SOCKET" });
});

it("proxies a WebSocket in both directions, and returns a refusal of the upgrade", async () => {
  const url = `ws://127.0.0.1:${gateway.port}/ws`;
  const socket = new WebSocket(url, { headers: headers() });
  await opened(socket);
  const message = once(socket as unknown as EventTarget, "message") as Promise<[MessageEvent]>;
  socket.send("hello");
  expect((await message)[0].data).toBe("hello");
  const closed = once(socket as unknown as EventTarget, "close");
  socket.close(1000);
  await closed;

  await expect(opened(new WebSocket(url))).rejects.toThrow("the WebSocket did not open");
  const key = { "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==" };
  const upgrade = { connection: "Upgrade", upgrade: "websocket", ...key };
  const refused = await rawRequest("/ws", { ...headers(), ...upgrade, "x-refuse": "yes" });
  expect(refused).toEqual({ status: 418, text: "refused" });
  const { "ramet-access-token": _, ...unknown } = headers();
  expect(await refusal(rawRequest("/ws", { ...unknown, ...upgrade }))).toEqual([401, "Unauthorized"]);
});

it("reports an unreachable destination with its own status and code", async () => {
  expect(await refusal(askWeb({}, { ...at, id: "t--none" }))).toEqual([502, "NotFound"]);
  expect(await refusal(askWeb({}, { ...at, port: 9001 }))).toEqual([502, "SandboxUnreachable"]);
  for (const body of ["", "x", Buffer.alloc(1_000_000)])
    expect(await refusal(askWeb({ method: "POST", body }, { ...at, port: 9001 }))).toEqual([502, "SandboxUnreachable"]);
  expect(await refusal(askWeb({}, { ...at, port: 49982 }))).toEqual([400, "InvalidArgument"]);
  expect(await refusal(askWeb({}, { ...at, port: 99_999 }))).toEqual([400, "InvalidArgument"]);
  expect(await refusal(askWeb({ headers: { "e2b-sandbox-port": "" } }))).toEqual([400, "InvalidArgument"]);
  // Clients can reach the guest, but not the paths that envd serves to its orchestrator.
  expect((await askWeb({ path: "/health" }, { ...at, port: 49983 })).status).toBe(204);
  for (const path of ["/init", "//init", "/%69nit?x=1", "/FREEZE/", "/upgrade"]) {
    expect(await refusal(askWeb({ method: "POST", path }, { ...at, port: 49983 }))).toEqual([404, "Forbidden"]);
  }
  expect(await request(`http://127.0.0.1:${gateway.port}/healthz`)).toMatchObject({ statusCode: 200 });
  expect(await request(`http://127.0.0.1:${gateway.port}/`)).toMatchObject({ statusCode: 400 });
});

it("lets a client with only the right exec use the guest of sandboxes in its namespace, and nothing else", async () => {
  const runner = { namespace, name: "runner" };
  const own = await accountToken(cluster.client, runner);
  await allowToReach(cluster.client, namespace, runner, "exec");
  const guest = { ...at, port: 49983 };
  const path = "/files?path=/tmp/from-gateway";
  const body = randomBytes(5 * 1024 * 1024);
  const upload = { token: own, method: "POST", path, body, headers: { "content-type": "application/octet-stream" } };
  expect((await ask(gateway, guest, upload)).status).toBe(200);
  const back = await request(`http://127.0.0.1:${gateway.port}${path}`, {
    headers: { ...headers(), "e2b-sandbox-port": "49983", "ramet-access-token": own },
  });
  expect(Buffer.from(await back.body.arrayBuffer()).equals(body)).toBe(true);
  expect(JSON.stringify(back.headers)).not.toContain("access-token");
  // The client with only the right proxy needs the sandbox's own token.
  expect((await ask(gateway, guest, { token, path })).status).toBe(401);
  expect(await refusal(ask(gateway, at, { token: own }))).toEqual([403, "Forbidden"]);
  expect(await refusal(ask(gateway, { id: "other--web", port: 49983 }, { token: own, path }))).toEqual([
    403,
    "Forbidden",
  ]);
  expect(await refusal(ask(gateway, guest, { token: own, method: "POST", path: "/init" }))).toEqual([404, "Forbidden"]);
});

it("lets a client with the sandbox's own token use the guest, as E2B's SDKs do, and links to files with a signature", async () => {
  const { metadata } = await cluster.sandbox("t/web", () => true);
  const secrets = cluster.client.resource(coreResources.secrets);
  const { data } = (await secrets.get({ namespace: systemNamespace, name: guestKeySecret })) as unknown as {
    data: Record<string, string>;
  };
  const digest = `sha256:${"0".repeat(64)}`;
  const spec = { serviceAccountName: "agent", digests: [{ digest }] };
  const key = { apiVersion: rametApiVersion, kind: "ApiKey", metadata: { name: "agent", namespace }, spec };
  await cluster.client.of(apiKeyKind).create(key);
  const valueId = keyValueId({ key: `${namespace}/agent`, digest });
  const given = { use: "enter", sandboxUid: metadata.uid, valueId } as const;
  const own = clientAccessToken(Buffer.from(data[guestSecretEntry] ?? "", "base64"), given);
  const guest = { id: metadata.uid.replaceAll("-", ""), port: 49983 };
  const path = "/tmp/own";
  const signed = (operation: string): string => {
    const hash = createHash("sha256").update(`${path}:${operation}::${own}`).digest("base64").replaceAll("=", "");
    return `/files?${new URLSearchParams({ path, signature: `v1_${hash}` }).toString()}`;
  };
  const upload = { method: "POST", body: "hello", headers: { "content-type": "application/octet-stream" } };
  expect((await ask(gateway, guest, { ...upload, path: signed("write") })).status).toBe(200);
  expect(await ask(gateway, guest, { path: signed("read") })).toMatchObject({ status: 200, text: "hello" });
  expect((await ask(gateway, guest, { ...upload, path: signed("read") })).status).toBe(401);
  const headers = { "x-access-token": own };
  expect(await ask(gateway, guest, { path: `/files?path=${path}`, headers })).toMatchObject({ text: "hello" });
  expect((await ask(gateway, guest, { path: `/files?path=${path}` })).status).toBe(401);
  expect((await ask(gateway, guest, { path: "/health" })).status).toBe(204);
});

it("opens a new connection after a checkpoint has broken the pooled ones", async () => {
  expect((await askWeb({ path: "/disconnected" })).status).toBe(200);
  await cluster.create({
    apiVersion,
    kind: "Checkpoint",
    metadata: { name: "c", namespace },
    spec: { sandboxName: "web" },
  });
  const { status } = await cluster.checkpoint("t/c", (checkpoint) => checkpoint.status?.phase === "Succeeded");
  expect((await askWeb({ path: "/disconnected" })).status).toBe(200);

  // A clone is another sandbox with its own id.
  const restore = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  const metadata = { name: "clone", namespace, annotations: restore };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: {} });
  await cluster.sandbox("t/clone", (sandbox) => sandbox.status?.phase === "Running");
  await expect
    .poll(async () => (await askWeb({ path: "/disconnected" }, { ...at, id: "t--clone" })).status, long)
    .toBe(200);
  for (const [port, address] of [
    [loopbackPorts.ipv4, "127.0.0.1"],
    [loopbackPorts.ipv6, "::1"],
  ] as const)
    expect(await askWeb({}, { id: "t--clone", port })).toMatchObject({ status: 200, text: address });
});

it("reports a paused sandbox as not ready, and finds it after it was resumed in another Pod", async () => {
  const { resource } = cluster.seen.sandboxes;
  const pause = (paused: boolean) => resource.mergePatch({ namespace, name: "web" }, { spec: { paused } });
  await pause(true);
  await cluster.sandbox("t/web", ({ status }) => status?.phase === "Paused");
  await expect.poll(() => refusal(askWeb()), long).toEqual([502, "SandboxNotReady"]);
  // E2B's SDKs decide by these words.
  expect((await askWeb()).text).toContain("was not found among those that run: its phase is Paused");
  await pause(false);
  await cluster.sandbox("t/web", ({ status }) => status?.phase === "Running");
  await expect.poll(async () => (await askWeb({ path: "/disconnected" })).status, long).toBe(200);
});

it("ends an open response with an error when the Pod of its sandbox is ended, and serves the next one from the next Pod", async () => {
  const before = await cluster.sandbox("t/web", ({ status }) => status?.phase === "Running");
  const { body } = await request(`http://127.0.0.1:${gateway.port}/events`, { headers: headers() });
  const response = text(body);
  await cluster.seen.pods.resource.delete({ namespace, name: "web" });
  await expect(response).rejects.toThrow();
  await expect.poll(async () => (await askWeb({ path: "/disconnected" })).status, long).toBe(200);
  const { status } = await cluster.sandbox(
    "t/web",
    ({ status: own }) => own?.ramet?.disruption?.outcome === "Migrated",
  );
  expect(status?.podInfo?.podUID).not.toBe(before.status?.podInfo?.podUID);
});

it("keeps admitting known clients, but no new ones, while the API server does not respond", async () => {
  const line = await ApiLine.open(cluster.connection.server);
  let later = 0;
  const clock = { ...systemClock, monotonicMilliseconds: () => systemClock.monotonicMilliseconds() + later };
  const client = new KubeClient({ ...cluster.connection, server: line.server }, { clock });
  const other = await startGateway(client);
  const asking = (own: string) => ask(other, at, { token: own, path: "/disconnected" });
  const newcomer = await accountToken(cluster.client, { namespace, name: "agent" });
  expect((await asking(token)).status).toBe(200);
  line.hold();
  // Longer than a decision is fresh.
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

it("finishes requests in progress at shutdown, and accepts no new connections", async () => {
  const ending = await startGateway(cluster.client);
  const { body } = await request(`http://127.0.0.1:${ending.port}/events`, { headers: headers() });
  ending.end();
  await expect
    .poll(
      () =>
        ask(ending, at, { token }).then(
          () => "accepted",
          (error: unknown) => (error as NodeJS.ErrnoException).code,
        ),
      long,
    )
    .toBe("ECONNREFUSED");
  await askWeb({ path: "/next" });
  expect(await body.text()).toBe("onetwo");
  await ending.ended;
});

/** Sends exactly these headers. Other HTTP clients would change them. */
async function rawRequest(path: string, given: Record<string, string>): Promise<{ status: number; text: string }> {
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
      reject(new Error("the WebSocket did not open"));
    });
  });
}
