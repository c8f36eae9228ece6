import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, PassThrough } from "node:stream";
import fc from "fast-check";
import { cellPort } from "../../src/api/wire/cell-api.ts";
import { systemClock } from "../../src/base/clock.ts";
import { RametError } from "../../src/base/errors.ts";
import { type Log, silentLog } from "../../src/base/log.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { cellProver } from "../../src/cell/client/cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken } from "../../src/cell/client/cell-token.ts";
import type { Cell } from "../../src/cell/lifecycle/cell.ts";
import { cellServer } from "../../src/cell/server/server.ts";
import { TcpProbes } from "../../src/cell/server/tcp-probes.ts";
import { tokenVerifier } from "../../src/cell/server/token-verifier.ts";
import { ClientApi } from "../../src/gateway/client-api.ts";
import { defaultLimits } from "../../src/gateway/limits.ts";
import { gatewayMetrics } from "../../src/gateway/metrics.ts";
import type { RoutedSandbox } from "../../src/gateway/routed-sandbox.ts";
import { type GatewayServer, serveGateway } from "../../src/gateway/server.ts";
import { Upstreams } from "../../src/gateway/upstreams.ts";
import { addressBlock } from "../setup/address-block.ts";
import { oneToken } from "../setup/one-token.ts";
import { bytesLike } from "./inputs.ts";
import { exchange, honestExchange } from "./raw-server.ts";
import { identity } from "./samples.ts";
import { assertThat, target } from "./target.ts";

const crlf = "\r\n";
const uid = "11111111-2222-4333-8444-555555555555";
const key = cellKeyFromPem(newCellKeyPem());
/** How many connections an input has at a time. */
const batch = 16;

const tokens = [
  crlf,
  "HTTP/1.1",
  "HTTP/1.0",
  "GET ",
  "POST ",
  "CONNECT ",
  "OPTIONS * ",
  "Transfer-Encoding: chunked\r\n",
  "Content-Length: 5\r\n",
  "Content-Length: -1\r\n",
  "Expect: 100-continue\r\n",
  "Connection: Upgrade\r\nUpgrade: websocket\r\n",
  "Connection: close\r\n",
  "Host: \r\n",
  "0\r\n\r\n",
  "5;a=b\r\nhello\r\n",
  "ffffffffffffffff\r\n",
  "X: \u0000\r\n",
  " folded\r\n",
  "x:constructor",
];

function request(line: string, headers: readonly string[], body = ""): string {
  return [`${line} HTTP/1.1`, ...headers, "", body].join(crlf);
}

const ownToken = "the-token-of-the-sandbox";
const toSandbox = ["Host: gateway", `E2b-Sandbox-Id: ${uid}`, "E2b-Sandbox-Port: 80"];
const gatewayRequests = [
  request("GET /", toSandbox),
  request("POST /a", [...toSandbox, "Content-Length: 5"], "hello"),
  request("POST /a", [...toSandbox, "Transfer-Encoding: chunked"], "5\r\nhello\r\n0\r\n\r\n"),
  request("GET /ws", [...toSandbox, "Connection: Upgrade", "Upgrade: websocket"]),
  request("GET /", ["Host: 80-team-a--dev.example.org", "X-Forwarded-For: 10.0.0.1", "Ramet-Access-Token: a.b.c"]),
  request("GET /%69nit", ["Host: gateway", `E2b-Sandbox-Id: ${uid}`, "E2b-Sandbox-Port: 49983"]),
  request("GET /healthz", ["Host: gateway"]),
  request("OPTIONS /files", [
    `Host: 49983-${uid}.example.org`,
    "Origin: https://example.org",
    "Access-Control-Request-Method: POST",
    "Access-Control-Request-Headers: x-access-token, e2b-sandbox-id",
  ]),
  request("GET /files?path=/a&signature=v1_x&signature_expiration=1", [`Host: 49983-${uid}.example.org`]),
  request("GET /envs", [`Host: 49983-${uid.replaceAll("-", "")}.x`, "Origin: null", `X-Access-Token: ${ownToken}`]),
  request("GET /", [...toSandbox.slice(0, 2), "E2b-Sandbox-Port: 8080", `E2b-Traffic-Access-Token: ${ownToken}`]),
  request(`GET /kruise/${uid}/80/a?b`, ["Host: gateway"]),
  request("POST /sandboxes", ["Host: gateway", "X-API-Key: e2b_00", "Content-Length: 2"], "{}"),
];
const sandboxAnswers = [
  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello",
  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 304 Not Modified\r\nConnection: X-A\r\nX-A: b\r\n\r\n",
  "HTTP/1.0 200 OK\r\n\r\nuntil the end",
];

const honestAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhonest";
const honest = request("GET /", [
  "Host: gateway",
  `E2b-Sandbox-Id: ${uid}`,
  "E2b-Sandbox-Port: 81",
  "Connection: close",
]);

interface GatewayWorld {
  gateway: GatewayServer;
  cell: Server;
  clientApi: ClientApi;
  clientApiServer: Server;
  streams: Set<Duplex>;
  cells: CellClient;
  upstreams: Upstreams;
  answers: Buffer[];
  problems: unknown[];
}

/** A log that collects messages with the level `error`: exceptions that nobody expected. */
function problemsLog(problems: unknown[]): Log {
  return { ...silentLog, error: (fields, message) => problems.push([message, fields]) };
}

/** A gateway's server and a stand-in cell, whose sandbox answers what the input says, and the truth on port 81. */
async function openGateway(): Promise<GatewayWorld> {
  const ip = `127.74.${addressBlock()}.1`;
  const streams = new Set<Duplex>();
  const answers: Buffer[] = [];
  const cell = createServer().on("upgrade", ({ url = "" }, stream) => {
    streams.add(stream);
    stream
      .on("error", () => stream.destroy())
      .once("end", () => stream.end())
      .once("close", () => streams.delete(stream));
    stream.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    stream.once("data", () => stream.end(url.endsWith("/81") ? honestAnswer : (answers.pop() ?? honestAnswer)));
  });
  cell.listen(cellPort, ip);
  await once(cell, "listening");
  const metadata = { namespace: "team-a", name: "dev", uid, resourceVersion: "1" };
  const ports = { publicPorts: [80, 81, 49_983], http2Ports: [], httpsPorts: [] };
  const isServing = {
    phase: "Running",
    isReady: true,
    hasEnded: false,
    isPaused: false,
    isMoving: false,
    autoResume: false,
    ip,
  };
  const sandbox: RoutedSandbox = { metadata, ...isServing, ...ports };
  const cells = new CellClient(key);
  const upstreams = new Upstreams(cells, () => sandbox);
  const problems: unknown[] = [];
  const clientApiServer = createServer((asked, response) => {
    asked.resume();
    response.end(asked.url);
  });
  clientApiServer.listen(0, "127.0.0.1");
  await once(clientApiServer, "listening");
  const { port } = clientApiServer.address() as AddressInfo;
  const clientApi = new ClientApi(new URL(`http://127.0.0.1:${port}`), systemClock, silentLog);
  const gateway = await serveGateway({
    upstreams,
    clientApi,
    port: 0,
    address: "127.0.0.1",
    metrics: gatewayMetrics(),
    limits: defaultLimits,
    trustedProxies: [],
    clock: systemClock,
    log: problemsLog(problems),
    sandboxes: { get: () => sandbox, byUid: (id) => (id === uid ? sandbox : undefined) },
    // Stands in for reviews by an API server, and accepts nobody.
    access: { check: () => Promise.reject(new RametError("Unauthorized", "nobody is authorized")) },
    // Nothing waits: the only sandbox serves.
    serving: { appeared: () => Promise.resolve(undefined), serving: () => Promise.resolve(undefined) },
    sandboxTokens: oneToken(ownToken),
  });
  return { gateway, cell, clientApi, clientApiServer, streams, cells, upstreams, answers, problems };
}

interface CellWorld {
  directory: string;
  server: Server;
  port: number;
}

const state = { phase: "running", generation: 1, ready: true };

/** A cell's server with a stand-in for what it controls. */
async function openCell(): Promise<CellWorld> {
  const done = (): Promise<typeof state> => Promise.resolve(state);
  const cell = {
    state,
    boot: done,
    adopt: done,
    setEgress: done,
    restore: done,
    stop: done,
    untilLoaded: done,
    onChange: () => () => undefined,
    dial: () => Promise.resolve(new PassThrough()),
  };
  const verifier = tokenVerifier(key, uid);
  const directory = await mkdtemp(join(tmpdir(), "ramet-fuzz-"));
  const logPath = join(directory, "log");
  await writeFile(logPath, "2026-01-01T00:00:00Z stdout F a line\n");
  const own = cell as unknown as Cell;
  const tcpProbes = new TcpProbes({ cell: own, ports: [80], clock: systemClock });
  const server = cellServer({ cell: own, verifier, prover: cellProver(uid), tcpProbes, logPath });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { directory, server, port: (server.address() as AddressInfo).port };
}

const bootBody = JSON.stringify({ identity });
const cellRequests = [
  request("GET /v1/state", ["Host: cell", "Authorization: Bearer {state}"]),
  request("GET /v1/loaded", ["Host: cell", "Authorization: Bearer {loaded}"]),
  request(
    "POST /v1/boot",
    ["Host: cell", "Authorization: Bearer {boot}", `Content-Length: ${bootBody.length}`],
    bootBody,
  ),
  request(
    "POST /v1/egress",
    ["Host: cell", "Authorization: Bearer {egress}", "Transfer-Encoding: chunked"],
    "2\r\n{}\r\n0\r\n\r\n",
  ),
  request("GET /v1/ports/80", ["Host: cell", "Authorization: Bearer {ports}", "Connection: Upgrade", "Upgrade: tcp"]),
  request("GET /readyz", ["Host: cell"]),
  request("GET /tcpz/80/live", ["Host: cell"]),
  request("GET /v1/proof", ["Host: cell", "Ramet-Nonce: 0123456789012345678901"]),
];

/** Replaces `{boot}` by a token for that operation. */
async function withTokens(bytes: Buffer): Promise<Buffer> {
  let text = bytes.toString("latin1");
  for (const operation of ["state", "loaded", "boot", "egress", "ports"]) {
    if (!text.includes(`{${operation}}`)) continue;
    const body = operation === "boot" ? { body: bootBody } : {};
    text = text.replaceAll(`{${operation}}`, await signCellToken(key, { sandboxUid: uid, operation, ...body }));
  }
  return Buffer.from(text, "latin1");
}

/** A request in one or two parts. */
function split(bytes: Buffer, at: number): Buffer[] {
  return at === 0 ? [bytes] : [bytes.subarray(0, at), bytes.subarray(at)];
}

const splitAt = fc.oneof(fc.constant(0), fc.nat({ max: 300 }));

/** Servers that get bytes over a socket. After each batch they must still answer an honest request. */
export const serverTargets = [
  target({
    name: "gateway",
    share: 3,
    batch,
    inputs: fc.array(
      fc.record({
        bytes: bytesLike(gatewayRequests, tokens),
        at: splitAt,
        answer: bytesLike(sandboxAnswers, [...tokens, "HTTP/1.1 200", "\u0001", "HTTP/1.1 999 x\r\n\r\n"]),
      }),
      { minLength: 1, maxLength: batch, size: "max" },
    ),
    world: openGateway,
    check: async (inputs, { gateway, answers, problems }) => {
      const to = { host: "127.0.0.1", port: gateway.port };
      answers.splice(0, answers.length, ...inputs.map(({ answer }) => answer));
      await Promise.all(inputs.map(({ bytes, at }) => exchange(to, split(bytes, at))));
      const answered = await honestExchange(to, honest);
      assertThat(answered.startsWith("HTTP/1.1 200") && answered.endsWith("honest"), `honest clients get ${answered}`);
      const [problem] = problems.splice(0);
      assertThat(problem === undefined, `an unexpected exception: ${String(problem)}`);
    },
    close: async ({ gateway, cell, clientApi, clientApiServer, streams, cells, upstreams }) => {
      for (const stream of streams) stream.destroy();
      await gateway.close(0);
      await Promise.all([upstreams.close(), clientApi.close()]);
      clientApiServer.close();
      cells.close();
      cell.close();
      cell.closeAllConnections();
    },
  }),
  target({
    name: "cell",
    share: 3,
    batch,
    inputs: fc.array(
      fc.record({ bytes: bytesLike(cellRequests, [...tokens, "{state}", "Bearer ", "/v1/"]), at: splitAt }),
      {
        minLength: 1,
        maxLength: batch,
        size: "max",
      },
    ),
    examples: [
      ["//", "http://", "x:constructor", "/%", "?"].map((path) => ({
        bytes: Buffer.from(request(`GET ${path}`, ["Host: cell"])),
        at: 0,
      })),
    ],
    world: openCell,
    check: async (inputs, { port }) => {
      const to = { host: "127.0.0.1", port };
      await Promise.all(
        inputs.map(async ({ bytes, at }) => {
          const answer = await exchange(to, split(await withTokens(bytes), at));
          const isStranger =
            !/\{[a-z]+\}/.test(bytes.toString("latin1")) && !/\/(healthz|readyz|tcpz\/80|proof)/.test(bytes.toString());
          assertThat(
            !isStranger || !/^HTTP\/1.1 [12]/.test(answer) || answer.startsWith("HTTP/1.1 100"),
            `a stranger gets ${answer}`,
          );
          assertThat(!answer.startsWith("HTTP/1.1 500"), `the cell answers ${answer}`);
        }),
      );
      const token = await signCellToken(key, { sandboxUid: uid, operation: "state" });
      const headers = ["Host: cell", "Connection: close", `Authorization: Bearer ${token}`];
      const answered = await honestExchange(to, request("GET /v1/state", headers));
      assertThat(answered.startsWith("HTTP/1.1 200"), `honest clients get ${answered}`);
    },
    close: async ({ server, directory }) => {
      server.close();
      server.closeAllConnections();
      await rm(directory, { recursive: true });
    },
  }),
];
