import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { RametError } from "../../src/base/errors.ts";
import { silentLog } from "../../src/base/log.ts";
import { cellProver } from "../../src/cell/client/cell-proof.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken } from "../../src/cell/client/cell-token.ts";
import type { Cell } from "../../src/cell/lifecycle/cell.ts";
import { cellServer } from "../../src/cell/server/server.ts";
import { tokenVerifier } from "../../src/cell/server/token-verifier.ts";
import { agentTierDialect, agentTierRoutes } from "../../src/client-api/dialects/agenttier/routes.ts";
import { e2bDialect, e2bRoutes } from "../../src/client-api/dialects/e2b/routes.ts";
import { nativeDialect, nativePrefix, nativeRoutes } from "../../src/client-api/dialects/native/routes.ts";
import { sandbox0Dialect, sandbox0Routes } from "../../src/client-api/dialects/sandbox0/routes.ts";
import { mcpHttpDialect } from "../../src/client-api/dialects/mcp/http-dialect.ts";
import type { Callers } from "../../src/client-api/keys/callers.ts";
import { clientApiMetrics } from "../../src/client-api/metrics.ts";
import { serveClientApi } from "../../src/client-api/server.ts";
import { ClientApi } from "../../src/gateway/client-api.ts";
import { defaultLimits } from "../../src/gateway/limits.ts";
import { gatewayMetrics } from "../../src/gateway/metrics.ts";
import { serveGateway } from "../../src/gateway/server.ts";
import { Upstreams } from "../../src/gateway/upstreams.ts";
import { nodeClientName } from "../../src/local/control-plane/api-server.ts";
import { openPki } from "../../src/local/control-plane/pki.ts";
import { startKubeletServer } from "../../src/local/node/kubelet-server.ts";
import { oneToken } from "../setup/one-token.ts";

/**
 * Requests whose bodies never arrive, at every route of every server. What the servers need behind their checks is a stand-in: this
 * proves what they answer to headers alone, and nothing about keys.
 */
const validKey = "valid";
const uid = "11111111-2222-4333-8444-555555555555";
const closers: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closers.reverse()) await close();
});

interface Route {
  method: string;
  path: string;
}

/** What a client receives that keeps its side open, and whether the server closes the connection soon. */
interface Outcome {
  status: number | undefined;
  saysClose: boolean;
  isClosed: boolean;
}

const soonMilliseconds = 6_000;
/** Enough for an answer that needs no body. */
const momentMilliseconds = 1_500;

/** Sends the headers of a request with a body, and perhaps its first byte. */
async function headersAlone(
  open: () => Socket,
  { method, path }: Route,
  { headers = [], first = "", waits = soonMilliseconds }: { headers?: string[]; first?: string; waits?: number } = {},
): Promise<Outcome> {
  const socket = open().on("error", () => undefined);
  let received = "";
  socket.on("data", (bytes: Buffer) => (received += bytes.toString("latin1")));
  const lines = [`${method} ${path} HTTP/1.1`, "Host: localhost", "Content-Length: 1000000", ...headers];
  socket.write(`${lines.join("\r\n")}\r\n\r\n${first}`);
  // A client that never stops sending notices by a write that the server has closed its side.
  const dripping = setInterval(() => first !== "" && socket.writable && socket.write("a"), 100);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  await Promise.race([closed, new Promise((resolve) => systemClock.schedule(waits, resolve as () => void))]);
  clearInterval(dripping);
  const isClosed = socket.closed || socket.readableEnded;
  socket.destroy();
  const status = /^HTTP\/1\.1 (\d{3})/.exec(received)?.[1];
  return {
    status: status === undefined ? undefined : Number(status),
    saysClose: /\r\nconnection: close\r\n/i.test(received),
    isClosed,
  };
}

const at = (port: number) => (): Socket => connect({ port, host: "127.0.0.1", allowHalfOpen: true });

function unauthorized(): Promise<never> {
  return Promise.reject(new RametError("Unauthorized", "nobody is authorized"));
}

const caller = {
  namespace: "team-a",
  key: "team-a/agent",
  digest: "",
  serviceAccount: "agent",
  user: { user: "agent", groups: [] },
};
const limits = {
  sandboxes: Infinity,
  requestsPerSecond: Infinity,
  concurrentRequests: Infinity,
  bytesInFlight: Infinity,
  snapshotBytes: Infinity,
};
const callers = {
  authenticate: (key: string | undefined) =>
    key === validKey ? Promise.resolve({ ...caller, limits }) : unauthorized(),
  rates: { take: () => 0 },
  endWhenRevoked: () => () => undefined,
  require: () => Promise.resolve(),
} as unknown as Callers;

async function openClientApi(): Promise<number> {
  const guests = { secret: () => Promise.resolve(Buffer.alloc(32)) };
  const shared = { service: { clock: systemClock }, callers, guests, secrets: {}, maxLifeSeconds: 60 };
  const parts = shared as unknown as Parameters<typeof e2bDialect>[0] &
    Parameters<typeof agentTierDialect>[0] &
    Parameters<typeof sandbox0Dialect>[0];
  const mcp = { ...shared, hosts: [], version: "1" } as unknown as Parameters<typeof mcpHttpDialect>[0];
  const server = await serveClientApi({
    port: 0,
    address: "127.0.0.1",
    dialects: [
      e2bDialect(parts),
      agentTierDialect(parts),
      nativeDialect(parts),
      sandbox0Dialect(parts),
      mcpHttpDialect(mcp),
    ],
    metrics: clientApiMetrics(),
    clock: systemClock,
    log: serverLog,
  });
  closers.push(() => server.close());
  return server.port;
}

const serverLog: typeof silentLog = Object.assign({}, silentLog, {
  trace: () => undefined,
  fatal: () => undefined,
  child: () => serverLog,
  level: "silent",
});

const filled = (path: string): string => path.replaceAll(/:\w+|\*/g, "x");
const guarded = ({ needs }: { needs: unknown }): boolean => needs !== "public";
const clientApiRoutes: Route[] = [
  ...e2bRoutes.filter(guarded),
  ...agentTierRoutes.filter(guarded).map(({ method, path }) => ({ method, path: `/api/v1${path}` })),
  ...nativeRoutes.filter(guarded).map(({ method, path }) => ({ method, path: `${nativePrefix}${path}` })),
  ...sandbox0Routes.filter(guarded).map(({ method, path }) => ({ method, path: `/sandbox0${path}` })),
  ...["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].flatMap((method) =>
    ["", "/a/b"].map((rest) => ({ method, path: `/api/v1/sandboxes/x/preview/80${rest}` })),
  ),
  ...["GET", "POST", "DELETE"].map((method) => ({ method, path: "/mcp" })),
  { method: "PUT", path: "/templates/uploads/forged.link" },
].map(({ method, path }) => ({ method, path: filled(path) }));

describe("the client API, with MCP, previews and uploads", () => {
  it("refuses every route without a key by its headers, and closes the connection", async () => {
    const port = await openClientApi();
    for (const headers of [[], ["X-API-Key: wrong"], ["X-API-Key: e2b_00", "Authorization: Bearer wrong"]]) {
      const outcomes = await Promise.all(
        clientApiRoutes.map(async (route) => {
          const first = headers.length === 0 ? "a" : "";
          return [route, await headersAlone(at(port), route, { headers, first })] as const;
        }),
      );
      const refused = { status: 401, saysClose: true, isClosed: true };
      for (const [route, outcome] of outcomes) expect([route, outcome]).toEqual([route, refused]);
    }
  });

  it("reads the body of a client with a key", async () => {
    const port = await openClientApi();
    const headers = [`X-API-Key: ${validKey}`];
    const routes = clientApiRoutes.filter(({ path }) => !path.startsWith("/templates/uploads"));
    const outcomes = await Promise.all(
      routes.map(
        async (route) => [route, await headersAlone(at(port), route, { headers, waits: momentMilliseconds })] as const,
      ),
    );
    expect(outcomes.filter(([, { status }]) => status === 401 || status === 403)).toEqual([]);
    const waiting = outcomes
      .filter(([, { status }]) => status === undefined)
      .map(([{ method, path }]) => `${method} ${path}`);
    expect(waiting).toEqual(
      expect.arrayContaining(["POST /sandboxes", "POST /api/v1/sandboxes/x/configure", "POST /mcp"]),
    );
  });

  it("asks for no body that it does not read, and closes unknown paths and terminals without a key", async () => {
    const port = await openClientApi();
    const expecting = await headersAlone(
      at(port),
      { method: "POST", path: "/sandboxes" },
      { headers: ["Expect: 100-continue"] },
    );
    expect(expecting).toEqual({ status: 401, saysClose: true, isClosed: true });
    const admitted = { headers: ["Expect: 100-continue", `X-API-Key: ${validKey}`], waits: momentMilliseconds };
    expect(await headersAlone(at(port), { method: "POST", path: "/sandboxes" }, admitted)).toMatchObject({
      status: 100,
    });
    const unknown = await headersAlone(at(port), { method: "POST", path: "/nothing" }, { first: "a" });
    expect(unknown).toEqual({ status: 404, saysClose: true, isClosed: true });
    const terminal = await headersAlone(
      at(port),
      { method: "GET", path: "/ws/terminal/x" },
      { headers: ["Connection: Upgrade", "Upgrade: websocket"], first: "a" },
    );
    expect(terminal).toEqual({ status: 401, saysClose: true, isClosed: true });
  });
});

describe("the gateway", () => {
  it("refuses every kind of port without a token by its headers, and so does the client API behind it", async () => {
    const metadata = { namespace: "team-a", name: "dev", uid, resourceVersion: "1" };
    const ports = { publicPorts: [], http2Ports: [], httpsPorts: [] };
    const state = { hasEnded: false, isPaused: false, isMoving: false, autoResume: false };
    const isServing = { phase: "Running" as const, isReady: true, ...state };
    const sandbox = { metadata, ...isServing, ip: "127.0.0.1", ...ports };
    const cells = new CellClient(cellKeyFromPem(newCellKeyPem()));
    const clientApi = new ClientApi(new URL(`http://127.0.0.1:${await openClientApi()}`), systemClock, silentLog);
    const gateway = await serveGateway({
      upstreams: new Upstreams(cells, () => sandbox),
      clientApi,
      port: 0,
      address: "127.0.0.1",
      metrics: gatewayMetrics(),
      limits: defaultLimits,
      trustedProxies: [],
      clock: systemClock,
      log: silentLog,
      sandboxes: { get: () => sandbox, byUid: () => sandbox },
      access: { check: unauthorized },
      serving: { appeared: () => Promise.resolve(undefined), serving: () => Promise.resolve(undefined) },
      sandboxTokens: oneToken("the-token-of-the-sandbox"),
    });
    closers.push(async () => {
      await gateway.close(0);
      await clientApi.close();
      cells.close();
    });
    const refused = { status: 401, saysClose: true, isClosed: true };
    for (const [port, status] of [
      // As E2B answers for a port that needs the token for traffic.
      ["80", 403],
      ["49983", 401],
      ["49999", 401],
    ] as const) {
      const headers = [`E2b-Sandbox-Id: ${uid}`, `E2b-Sandbox-Port: ${port}`];
      for (const first of ["", "a"]) {
        const outcome = await headersAlone(at(gateway.port), { method: "POST", path: "/files" }, { headers, first });
        expect([port, outcome]).toEqual([port, { ...refused, status }]);
      }
    }
    const behind = await headersAlone(at(gateway.port), { method: "POST", path: "/sandboxes" }, { first: "a" });
    expect(behind).toEqual(refused);
  });
});

describe("the cell", () => {
  it("refuses every operation without a token by its headers, and closes the connection", async () => {
    const key = cellKeyFromPem(newCellKeyPem());
    const cell = { state: { phase: "running", generation: 1, ready: true } } as unknown as Cell;
    const server = cellServer({
      cell,
      verifier: tokenVerifier(key, uid),
      prover: cellProver(uid),
      logPath: "/nonexistent",
    });
    const port = await listening(server);
    const operations = [
      "boot",
      "identity",
      "keys",
      "egress",
      "credentials",
      "restore",
      "swap",
      "checkpoint",
      "hold",
      "release",
    ];
    const posts = [...operations, "sync", "stop"].map((name) => ({ method: "POST", path: `/v1/${name}` }));
    const gets = ["state", "loaded"].map((name) => ({ method: "GET", path: `/v1/${name}` }));
    const outcomes = await Promise.all(
      [...posts, ...gets].map((route) => headersAlone(at(port), route, { first: "a" })),
    );
    for (const outcome of outcomes) expect(outcome).toEqual({ status: 401, saysClose: true, isClosed: true });
    const upgrading = { headers: ["Connection: Upgrade", "Upgrade: tcp"], first: "a" };
    expect(await headersAlone(at(port), { method: "GET", path: "/v1/ports/80" }, upgrading)).toEqual({
      status: 401,
      saysClose: true,
      isClosed: true,
    });
    const headers = [`Authorization: Bearer ${await signCellToken(key, { sandboxUid: uid, operation: "boot" })}`];
    const admitted = await headersAlone(
      at(port),
      { method: "POST", path: "/v1/boot" },
      { headers, waits: momentMilliseconds },
    );
    expect(admitted.status).toBe(undefined);
  });
});

describe("the kubelet port of the local node", () => {
  it("accepts the certificate of the API server alone", async () => {
    const directory = await mkdtemp(join(tmpdir(), "ramet-kubelet-"));
    closers.push(() => rm(directory, { recursive: true }));
    const pki = await openPki(directory, () => new Date());
    const { certificate, key } = await pki.issue({ commonName: "node", hosts: ["127.0.0.1"], use: "server" });
    const findLog = () => undefined;
    const serving = { ca: pki.ca, certificate, key, ip: "127.0.0.1", findLog, clock: systemClock };
    const server = await startKubeletServer(serving);
    closers.push(() => {
      server.close();
    });
    const as = async (commonName?: string) => {
      const pair = commonName === undefined ? undefined : await pki.issue({ commonName, use: "client" });
      const options = {
        port: server.port,
        host: "127.0.0.1",
        ca: pki.ca,
        ...(pair && { cert: pair.certificate, key: pair.key }),
      };
      const open = () => connectTls(options);
      return headersAlone(open, { method: "POST", path: "/containerLogs/a/b/c" }, { first: "a" });
    };
    expect(await as()).toEqual({ status: undefined, saysClose: false, isClosed: true });
    expect(await as("somebody")).toEqual({ status: 403, saysClose: true, isClosed: true });
    expect(await as(nodeClientName)).toMatchObject({ status: 404 });
  });
});

async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => server.close());
  return (server.address() as AddressInfo).port;
}
