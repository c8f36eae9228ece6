import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { codeInterpreterPort, guestClientPort } from "../../src/api/wire/cell-api.ts";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../../src/api/names/system-names.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { type GatewayProcess, GatewayWorld, head, type RawConnection, upgrade } from "./gateway-world.ts";

/** Floods of requests to paused and to unknown sandboxes. A server of the test stands in for the client API. */
let world: GatewayWorld;
let gateway: GatewayProcess;
let clientApi: Server;
let asked: string[] = [];
let answerAs: (request: IncomingMessage, response: ServerResponse) => void;

const port = 8000;
const refused = /^HTTP\/1.1 503 .*Retry-After: \d+\r\n.*Too many requests wait/is;
/** The limit for one sandbox. */
const places = 250;

beforeAll(async () => {
  world = await GatewayWorld.open();
  const data = { [guestSecretEntry]: Buffer.from("secret of the guests").toString("base64") };
  const metadata = { name: guestKeySecret, namespace: systemNamespace };
  await world.client.resource(coreResources.secrets).create({ apiVersion: "v1", kind: "Secret", metadata, data });
  clientApi = createServer((request, response) => {
    asked.push(request.url ?? "");
    answerAs(request, response);
  });
  clientApi.listen(0, "127.0.0.1");
  await once(clientApi, "listening");
  const at = (clientApi.address() as AddressInfo).port;
  gateway = await world.startGateway(["--client-api", `http://127.0.0.1:${at}`]);
});
beforeEach(() => {
  asked = [];
  answerAs = () => undefined;
});
afterAll(async () => {
  await gateway.child.kill();
  clientApi.closeAllConnections();
  clientApi.close();
  await world.close();
});

function serve(stream: Duplex): void {
  stream.once("data", () => stream.end("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nserved"));
}

const paused = (name: string) => world.sandbox(name, serve, { publicPorts: [port], isPaused: true });

/** Sends requests that wait. They come from several addresses, because one client has fewer connections. */
async function wait(name: string, count: number, more: readonly string[] = []): Promise<RawConnection[]> {
  const opened = await Promise.all(Array.from({ length: count }, () => gateway.connect()));
  for (const { socket } of opened) socket.write(head(name, port, more));
  return opened;
}

const inProgress = () => gateway.metric("ramet_gateway_requests_under_way");

it("lets a limited number of requests wait for one sandbox, with one resume, and then serves them", async () => {
  await paused("flooded");
  await paused("other");
  const waiting = await wait("flooded", places, ["Connection: close"]);
  await expect.poll(inProgress).toBe(places);
  expect(await gateway.exchange(head("flooded", port, ["Connection: close"]))).toMatch(refused);
  // The other sandbox has places of its own.
  const elsewhere = await wait("other", 1, ["Connection: close"]);
  await expect.poll(() => asked.length).toBe(2);
  await world.resume("other");
  await world.resume("flooded");
  await Promise.all([...waiting, ...elsewhere].map(({ closed }) => closed));
  for (const { received } of [...waiting, ...elsewhere]) expect(received).toContain("served");
});

it("is woken once by a thousand requests, keeps no place for those without a right, and answers everyone meanwhile", async () => {
  await paused("woken");
  answerAs = (request, response) => {
    if (request.url === "/health") response.end("healthy");
  };
  const close = "Connection: close";
  const denied = [
    head("woken", 9000, [close]),
    head("woken", 9000, [close, "Ramet-Access-Token: made-up"]),
    head("woken", guestClientPort, [close]),
    head("woken", guestClientPort, [close, "X-Access-Token: made-up"]),
    head("woken", codeInterpreterPort, [close, "E2b-Traffic-Access-Token: made-up"]),
  ];
  const refusals = await Promise.all(Array.from({ length: 500 }, (_, at) => gateway.exchange(denied[at % 5]!)));
  for (const refusal of refusals) expect(refusal).toMatch(/^HTTP\/1.1 (401|403|502) /);
  expect(asked).toEqual([]);
  const flood = await wait("woken", 1_000, [close]);
  await expect.poll(() => flood.filter(({ received }) => refused.test(received)).length).toBe(1_000 - places);
  await expect.poll(inProgress).toBe(places);
  expect(await gateway.exchange(denied[1]!)).toMatch(/^HTTP\/1.1 401 /);
  for (const path of ["/healthz", "/health"])
    expect(await gateway.exchange(`GET ${path} HTTP/1.1\r\nHost: x\r\n${close}\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 /);
  expect(asked.filter((path) => path.endsWith("/resume"))).toHaveLength(1);
  await world.resume("woken");
  await Promise.all(flood.map(({ closed }) => closed));
  expect(flood.filter(({ received }) => received.includes("served"))).toHaveLength(places);
});

it("lets a limited number of requests wait for a sandbox that continues in another Pod, and none if no node takes it", async () => {
  await world.sandbox("moved", serve, { publicPorts: [port] });
  const disruption = { cause: "Evicted", at: new Date().toISOString(), outcome: "Migrating" };
  await world.move("moved", { disruption });
  const close = ["Connection: close"];
  const waiting = await wait("moved", places, close);
  await expect.poll(inProgress).toBe(places);
  expect(await gateway.exchange(head("moved", port, close))).toMatch(refused);
  await world.resume("moved");
  await Promise.all(waiting.map(({ closed }) => closed));
  for (const { received } of waiting) expect(received).toContain("served");
  await world.move("moved", { disruption, noTarget: { cause: "Evicted", at: disruption.at, message: "none" } });
  expect(await gateway.exchange(head("moved", port, close))).toMatch(/^HTTP\/1.1 502 /);
  // No client was needed.
  expect(asked).toEqual([]);
});

it("gives the place of a client that has disconnected to another one", async () => {
  await paused("left");
  const plain = await wait("left", places / 2);
  const upgraded = await wait("left", places / 2, upgrade);
  await expect.poll(inProgress).toBe(places);
  for (const { socket } of [...plain, ...upgraded]) socket.destroy();
  await expect.poll(inProgress).toBe(0);
  const [next] = await wait("left", 1, ["Connection: close"]);
  await expect.poll(inProgress).toBe(1);
  await world.resume("left");
  await next?.closed;
  expect(next?.received).toContain("served");
});

it("does not read the bodies of waiting requests", async () => {
  const size = 64 * 2 ** 20;
  await world.sandbox("uploads", countBytes(size), { publicPorts: [port], isPaused: true });
  const [upload] = await wait("uploads", 1, [`Content-Length: ${size}`, "Connection: close"]);
  let sent = 0;
  const sending = (async () => {
    for (; sent < size; sent += 2 ** 20)
      await new Promise((resolve) => upload?.socket.write(Buffer.alloc(2 ** 20), resolve));
  })();
  await expect.poll(inProgress).toBe(1);
  // Meanwhile, the gateway would have read it.
  for (let round = 0; round < 300; round++)
    await gateway.exchange("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  expect(sent).toBeLessThan(size / 2);
  await world.resume("uploads");
  await sending;
  await upload?.closed;
  expect(upload?.received).toContain(`${size} bytes`);
});

/** Answers when it has read so many bytes of a body. */
function countBytes(size: number) {
  return (stream: Duplex): void => {
    let seen = 0;
    let isBody = false;
    stream.on("data", (bytes: Buffer) => {
      const at = isBody ? 0 : bytes.indexOf("\r\n\r\n") + 4;
      isBody = true;
      seen += bytes.length - at;
      if (seen === size) stream.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${seen} bytes`);
    });
  };
}

it("answers when the client API refuses, fails, or sends what is no answer", async () => {
  await paused("denied");
  const ask = () => gateway.exchange(head("denied", port, ["Connection: close"]));
  const json = (status: number, body: object | string) => (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status).end(typeof body === "string" ? body : JSON.stringify(body));
  };
  const answers: [(request: IncomingMessage, response: ServerResponse) => void, RegExp][] = [
    [json(403, { reason: "Forbidden", message: "not by traffic" }), /^HTTP\/1.1 403 .*not by traffic/s],
    [json(404, { reason: "NotFound", message: "gone" }), /^HTTP\/1.1 502 /],
    [json(409, { reason: "Conflict", message: "still pausing" }), /^HTTP\/1.1 409 .*still pausing/s],
    [json(401, { reason: "Unauthorized", message: "no proof" }), /^HTTP\/1.1 503 /],
    [json(500, "<html>"), /^HTTP\/1.1 503 /],
    [json(200, { resumed: "yes" }), /^HTTP\/1.1 503 /],
    [json(200, "x".repeat(10 * 2 ** 20)), /^HTTP\/1.1 50[023] /],
    [(_, response) => response.destroy(), /^HTTP\/1.1 50[23] /],
  ];
  for (const [how, expected] of answers) {
    answerAs = how;
    expect(await ask()).toMatch(expected);
  }
  // A client API that knows of the pause later than the gateway is asked again.
  answerAs = (_, response) => {
    if (asked.length > 20) void world.resume("denied");
    json(200, { resumed: false })(_, response);
  };
  expect(await ask()).toContain("served");
});

it("lets requests for unknown ids wait only for a moment, and few of them", async () => {
  const id = "0123456789abcdef0123456789abcdef";
  const unknown = (): Promise<string> =>
    gateway.exchange(
      `GET / HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: ${id}\r\nE2b-Sandbox-Port: 80\r\nConnection: close\r\n\r\n`,
    );
  const answers = await Promise.all(Array.from({ length: 1_000 }, unknown));
  for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 502 /);
  await paused("afterwards");
  const [next] = await wait("afterwards", 1, ["Connection: close"]);
  await world.resume("afterwards");
  await next?.closed;
  expect(next?.received).toContain("served");
});
