import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type Server,
  type ServerResponse,
} from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { newApiKey } from "../../src/api/keys/api-key-text.ts";
import { rametApiVersion } from "../../src/api/schema/kind.ts";
import { type GatewayProcess, GatewayWorld, head, namespace, upgrade } from "./gateway-world.ts";

/** The gateway as the one address of clients. A server of the test stands in for the client API. */
let world: GatewayWorld;
let gateway: GatewayProcess;
let clientApi: Server;
let answerAs: (request: IncomingMessage, response: ServerResponse) => void;

const url = (path: string): string => `http://127.0.0.1:${gateway.port}${path}`;
const long = { timeout: 60_000 };

beforeAll(async () => {
  world = await GatewayWorld.open();
  await world.sandbox("a", echo, { publicPorts: "8000, 49983, 49999" });
  clientApi = createServer((asked, response) => {
    answerAs(asked, response);
  });
  clientApi.listen(0, "127.0.0.1");
  await once(clientApi, "listening");
  const { port } = clientApi.address() as AddressInfo;
  gateway = await world.startGateway(["--client-api", `http://127.0.0.1:${port}`]);
});
afterAll(async () => {
  await gateway.child.kill();
  clientApi.close();
  clientApi.closeAllConnections();
  await world.close();
});

/** Answers with the head of the request. The code interpreter decides itself about foreign origins. */
function echo(stream: Duplex, port: number): void {
  const own = port === 49999 ? "Access-Control-Allow-Origin: https://own.example\r\n" : "";
  stream.once("data", (head: Buffer) => {
    const text = head.toString();
    stream.end(`HTTP/1.1 200 OK\r\n${own}Connection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
  });
}

/** Answers as JSON what the client API was asked. */
function report(asked: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  asked.on("data", (chunk: Buffer) => chunks.push(chunk));
  asked.once("end", () => {
    const { method, url: path, headers } = asked;
    response.setHeader("X-Next-Token", "next").writeHead(201, { "content-type": "application/json" });
    response.end(JSON.stringify({ method, path, headers, size: Buffer.concat(chunks).length }));
  });
}

interface Report {
  method: string;
  path: string;
  headers: Record<string, string>;
  size: number;
}

it("proxies what names no sandbox, with the client's address and without hop-by-hop headers", async () => {
  answerAs = report;
  const body = randomBytes(3 * 1024 * 1024);
  const {
    statusCode,
    headers,
    body: answer,
  } = await request(url("/v2/sandboxes?state=running%2Cpaused"), {
    method: "POST",
    headers: { "x-api-key": "e2b_00", "ramet-access-token": "secret" },
    body,
  });
  const asked = (await answer.json()) as Report;
  expect(statusCode).toBe(201);
  expect(headers["x-next-token"]).toBe("next");
  expect(asked).toMatchObject({ method: "POST", path: "/v2/sandboxes?state=running%2Cpaused", size: body.length });
  expect(asked.headers).toMatchObject({
    host: `127.0.0.1:${gateway.port}`,
    "x-api-key": "e2b_00",
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-proto": "http",
  });
  expect(JSON.stringify(asked.headers)).not.toContain("secret");
  // Ids in the path stay as the client has encoded them.
  const raw = await gateway.exchange(
    "DELETE /templates/team%2Fname%3Av1 HTTP/1.1\r\nHost: api.example.org\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n\r\n",
  );
  expect(raw).not.toContain("x-hop");
  expect(raw).toContain('"path":"/templates/team%2Fname%3Av1"');
  expect(raw).toContain('"host":"api.example.org"');
});

it("keeps health checks and requests to sandboxes to itself", async () => {
  answerAs = (_, response) => response.writeHead(418).end();
  expect(await (await request(url("/healthz"))).body.text()).toBe("ok\n");
  expect((await request(url("/health"))).statusCode).toBe(418);
  expect((await request(url("/kruise/api/sandboxes"))).statusCode).toBe(418);
  expect(await gateway.exchange(head("a", 8000, ["Connection: close"]))).toMatch(/^HTTP\/1.1 200 /);
  expect(await gateway.exchange(head("none", 8000, ["Connection: close"]))).toMatch(/^HTTP\/1.1 401 /);
});

it("reaches a sandbox by a path, which the program sees without its prefix", async () => {
  const at = `/kruise/${namespace}--a/8000`;
  const answer = await request(url(`${at}/files//x?y=/z`));
  expect(await answer.body.text()).toMatch(/^GET \/files\/\/x\?y=\/z HTTP\/1.1\r\n/);
  expect(await (await request(url(at))).body.text()).toMatch(/^GET \/ HTTP\/1.1\r\n/);
  // The rules of the port apply to that path.
  const guest = `/kruise/${namespace}--a/49983`;
  expect((await request(url(`${guest}//init`), { method: "POST" })).statusCode).toBe(404);
  expect(await gateway.exchange(`GET ${at}/ws HTTP/1.1\r\nHost: x\r\n${upgrade.join("\r\n")}\r\n\r\n`)).toContain(
    "\r\n\r\nGET /ws HTTP/1.1\r\n",
  );
});

it("streams in both directions, and ends the request to the client API when the client leaves", async () => {
  const closed = Promise.withResolvers<string>();
  let received = 0;
  answerAs = (asked, response) => {
    response.once("close", () => {
      closed.resolve("closed");
    });
    response.writeHead(200);
    asked.on("data", (chunk: Buffer) => {
      received += chunk.length;
      response.write(`after ${received}`);
    });
  };
  const sent = httpRequest(url("/builds"), { method: "POST", headers: { "transfer-encoding": "chunked" } });
  sent.on("error", () => undefined).write("one");
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.on("error", () => undefined);
  expect(String((await once(answer, "data"))[0])).toBe("after 3");
  sent.write("more");
  expect(String((await once(answer, "data"))[0])).toBe("after 7");
  sent.destroy();
  await closed.promise;
});

it("does not read more of a body than the client API takes", async () => {
  const taking = Promise.withResolvers<IncomingMessage>();
  answerAs = (asked) => {
    taking.resolve(asked);
  };
  const sent = httpRequest(url("/slow"), { method: "POST", headers: { "transfer-encoding": "chunked" } });
  sent.on("error", () => undefined);
  const chunk = Buffer.alloc(1024 * 1024);
  let accepted = 0;
  // A socket that takes no more calls back no more.
  const pump = (): void => {
    sent.write(chunk, () => {
      accepted++;
      if (accepted < 200) pump();
    });
  };
  pump();
  const asked = await taking.promise;
  let before = -1;
  await expect
    .poll(
      () => {
        const isStill = accepted === before;
        before = accepted;
        return isStill;
      },
      { ...long, interval: 1_000 },
    )
    .toBe(true);
  expect(accepted).toBeLessThan(60);
  sent.destroy();
  asked.destroy();
});

it("answers requests over HTTP/2 too", async () => {
  answerAs = report;
  const session = connectHttp2(url(""));
  const stream = session.request({ ":path": "/sandboxes", ":method": "POST", "x-api-key": "e2b_00" });
  stream.end("{}");
  let text = "";
  for await (const chunk of stream as AsyncIterable<Buffer>) text += chunk.toString();
  expect(JSON.parse(text)).toMatchObject({ method: "POST", path: "/sandboxes", size: 2 });
  session.close();
});

it("answers 502 to an invalid response and 503 while the client API is down, as JSON without its address", async () => {
  const ask = async (path = "/sandboxes") => {
    const { statusCode, headers, body } = await request(url(path), { method: "POST" });
    return { status: statusCode, retry: headers["retry-after"], body: (await body.json()) as Record<string, unknown> };
  };
  for (const bytes of ["SSH-2.0\r\n", "HTTP/1.1 000 x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ""]) {
    answerAs = (asked) => asked.socket.end(bytes);
    expect(await ask()).toMatchObject({ status: 502, body: { code: 502, reason: "Unavailable", retryable: true } });
  }
  const { port } = clientApi.address() as AddressInfo;
  clientApi.close();
  clientApi.closeAllConnections();
  await expect.poll(async () => (await ask()).status, long).toBe(503);
  const down = await ask();
  expect(down).toMatchObject({ retry: "1", body: { code: 503, reason: "Unavailable", retryable: true } });
  expect(JSON.stringify(down.body)).not.toContain(String(port));
  expect(await gateway.exchange(head("a", 8000, ["Connection: close"]))).toMatch(/^HTTP\/1.1 200 /);
  answerAs = report;
  clientApi.listen(port, "127.0.0.1");
  await once(clientApi, "listening");
  expect((await ask()).status).toBe(201);
  expect(await gateway.metric('ramet_gateway_client_api_requests_total{status="503"}')).toBeGreaterThan(0);
});

/** A WebSocket's connection to the client API, through the gateway. @returns both ends, and what follows the head */
async function tunnel(headers: readonly string[] = []): Promise<{ client: Socket; server: Duplex; first: string }> {
  const upgraded = once(clientApi, "upgrade") as Promise<[IncomingMessage, Duplex, Buffer]>;
  const client = connect(gateway.port, "127.0.0.1");
  client.on("error", () => undefined);
  const lines = ["GET /api/v1/ws?a=b HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket"];
  client.write([...lines, ...headers, "", "early"].join("\r\n"));
  const [asked, server, early] = await upgraded;
  server.unshift(early);
  server.on("error", () => undefined);
  expect([asked.url, asked.headers["x-forwarded-for"]]).toEqual(["/api/v1/ws?a=b", "127.0.0.1"]);
  server.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst");
  const [bytes] = (await once(client, "data")) as [Buffer];
  return { client, server, first: bytes.toString() };
}

const untilClosed = (stream: Duplex) => new Promise((resolve) => stream.once("close", resolve));

it("proxies WebSockets to the client API until one side closes", async () => {
  const { client, server, first } = await tunnel();
  expect(first).toMatch(/^HTTP\/1.1 101 /);
  server.write("second");
  await once(client, "data");
  client.write("later");
  let received = "";
  for await (const chunk of server as AsyncIterable<Buffer>) {
    received += chunk.toString();
    if (received === "earlylater") break;
  }
  server.destroy();
  await untilClosed(client.resume());
  const left = await tunnel();
  left.client.destroy();
  await new Promise((resolve) => left.server.resume().once("end", resolve));
});

it("passes on the refusal of a WebSocket", async () => {
  clientApi.once("upgrade", (_: IncomingMessage, connection: Duplex) => {
    connection.end("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone");
  });
  const asked = "GET /none HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  expect(await gateway.exchange(asked)).toMatch(/^HTTP\/1.1 404 .*none$/s);
});

it("ends a WebSocket whose key was deleted, also if its client never reads", async () => {
  const keys = world.client.of(apiKeyKind);
  const at = { namespace, name: "reader" };
  const { text, digest } = newApiKey({ ...at, format: "sandbox0", random: randomBytes });
  const spec = { serviceAccountName: "reader", digests: [{ digest }] };
  await keys.create({ apiVersion: rametApiVersion, kind: "ApiKey", metadata: at, spec });
  const { client, server } = await tunnel([`Authorization: Bearer ${text}`]);
  client.pause();
  const fill = (): void => {
    while (server.writable && server.write(Buffer.alloc(1024 * 1024)));
  };
  server.on("drain", fill);
  fill();
  const ended = untilClosed(server);
  await keys.delete(at);
  await ended;
  client.destroy();
});

it("survives upgrades and broken requests for the client API", async () => {
  answerAs = report;
  const line = (text: string, more: readonly string[] = []) => [text, "Host: x", ...more, "", ""].join("\r\n");
  const http2 = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA"];
  expect(await gateway.exchange(line("GET /mcp HTTP/1.1", http2))).toMatch(/^HTTP\/1.1 400 .*upgrades/s);
  for (const attack of [
    line("GET http://127.0.0.1:1/ HTTP/1.1", ["Connection: close"]),
    line("GET //127.0.0.1:1/ HTTP/1.1", ["Connection: close"]),
    line("OPTIONS * HTTP/1.1", ["Connection: close"]),
    line("POST / HTTP/1.1", ["Connection: close", "Content-Length: 5", "Expect: 100-continue"]) + "hello",
  ])
    expect([attack, await gateway.exchange(attack)]).toEqual([
      attack,
      expect.stringMatching(/HTTP\/1.1 (201|4\d\d|502) /) as string,
    ]);
});

const preflight = (more: Record<string, string> = {}) => ({
  origin: "https://app.example",
  "access-control-request-method": "POST",
  ...more,
});

it("answers preflights for the ports through which clients enter, without a token and for unknown sandboxes too", async () => {
  answerAs = (_, response) => response.writeHead(418).end();
  const listed = "x-access-token,e2b-sandbox-id,connect-protocol-version,Authorization";
  const ask = async (path: string, headers: Record<string, string>) =>
    request(url(path), { method: "OPTIONS", headers });
  const answers = [
    // The SDK names the sandbox in headers, which a preflight does not have.
    ask("/process.Process/Start", preflight({ "access-control-request-headers": listed })),
    ask("/files", preflight({ host: `49983-${namespace}--a.example.org`, "access-control-request-headers": listed })),
    ask(
      "/execute",
      preflight({ host: `49999-${namespace}--none.example.org`, "access-control-request-headers": listed }),
    ),
    ask(`/kruise/${namespace}--a/49983/files`, preflight({ "access-control-request-headers": listed })),
  ];
  for (const { statusCode, headers } of await Promise.all(answers)) {
    expect(statusCode).toBe(204);
    expect(headers).toMatchObject({
      "access-control-allow-origin": "*",
      "access-control-allow-methods": expect.stringContaining("POST") as string,
      "access-control-allow-headers": "x-access-token, e2b-sandbox-id, connect-protocol-version, authorization",
    });
    expect(headers["access-control-allow-credentials"]).toBeUndefined();
  }
  // Others are for the client API and for programs.
  expect((await ask("/sandboxes", preflight({ "access-control-request-headers": "x-api-key" }))).statusCode).toBe(418);
  const program = await ask("/", preflight({ host: `8000-${namespace}--a.example.org` }));
  expect(await program.body.text()).toMatch(/^OPTIONS \/ /);
});

it("lets scripts of all origins read responses and errors of these ports, and of no others", async () => {
  const ask = async (port: number, path = "/") =>
    request(url(path), {
      method: path === "/init" ? "POST" : "GET",
      headers: { origin: "https://app.example", host: `${port}-${namespace}--a.example.org` },
    });
  const allowed = async (answer: ReturnType<typeof ask>) => (await answer).headers["access-control-allow-origin"];
  expect(await allowed(ask(49983))).toBe("*");
  expect(await allowed(ask(49983, "/init"))).toBe("*");
  expect(await allowed(ask(49999))).toBe("https://own.example");
  expect(await allowed(ask(8000))).toBeUndefined();
});
