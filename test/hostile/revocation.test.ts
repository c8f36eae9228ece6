import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { text as readText } from "node:stream/consumers";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { ApiKey, apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { SandboxTemplate } from "../../src/api/kinds/sandbox-template.ts";
import { newApiKey } from "../../src/api/keys/api-key-text.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { apiVersion, rametApiVersion } from "../../src/api/schema/kind.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { agentTierDialect } from "../../src/client-api/dialects/agenttier/routes.ts";
import { e2bDialect } from "../../src/client-api/dialects/e2b/routes.ts";
import { signUploadLink, uploadPath } from "../../src/client-api/dialects/e2b/serve-uploads.ts";
import { mcpHttpDialect } from "../../src/client-api/dialects/mcp/http-dialect.ts";
import { Callers } from "../../src/client-api/keys/callers.ts";
import { clientApiMetrics } from "../../src/client-api/metrics.ts";
import { type ClientApiServer, serveClientApi } from "../../src/client-api/server.ts";
import { clientInformers, serviceParts } from "../../src/client-api/service/parts.ts";
import { explicitConnection } from "../../src/kube/connection.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";

/**
 * Everything of the client API that outlives a request. The API server and the sandbox are stand-ins: the first knows the service
 * account and allows everything, the second never answers. The events of the watch of keys are those of a test.
 */
const at = { namespace: "team-a", name: "agent" };
const secret = Buffer.alloc(32);
const uid = "11111111-2222-4333-8444-555555555555";
const metadata = { resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z", uid };

/** Service accounts that have lost their rights. */
const dismissed: string[] = [];
let apiServer: Server;
let client: KubeClient;
let callers: Callers;
let server: ClientApiServer;
let close: () => void;
let text: string;
let digest: string;
let key: ApiKey;

beforeAll(async () => {
  apiServer = createServer((request, response) => {
    const isReview = request.url?.includes("subjectaccessreviews") === true;
    const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { ...metadata, ...at } };
    if (request.method === "POST" && !isReview) {
      request.resume();
      return;
    }
    response.writeHead(isReview ? 201 : 200, { "content-type": "application/json" });
    void readText(request).then((body) => {
      const allowed = !dismissed.some((name) => body.includes(`:${name}"`));
      response.end(JSON.stringify(isReview ? { status: { allowed } } : account));
    });
  });
  apiServer.listen(0, "127.0.0.1");
  await once(apiServer, "listening");
  client = new KubeClient(
    explicitConnection({ server: `http://127.0.0.1:${(apiServer.address() as AddressInfo).port}` }),
  );
  callers = new Callers(client, { log: silentLog });
  const informers = clientInformers(client, { log: silentLog });
  const spec = { template: { spec: { containers: [{ name: "main", image: "python" }] } } };
  const status = { phase: "Running", conditions: [ready], sandboxIp: "127.0.0.1" };
  informers.sandboxes.store.put(
    Sandbox.parse({
      apiVersion,
      kind: "Sandbox",
      metadata: { ...metadata, ...at, name: "dev", annotations: agent },
      spec,
      status,
    }),
  );
  informers.templates.store.put(
    SandboxTemplate.parse({
      apiVersion,
      kind: "SandboxTemplate",
      metadata: { ...metadata, ...at, name: "base" },
      spec,
    }),
  );
  const service = serviceParts(client, informers, new Map());
  ({ close } = service);
  const never = () => new Promise<never>(() => undefined);
  const silent = {
    writeFile: never,
    stat: never,
    signal: () => Promise.resolve(),
    startProcess: () => ({ [Symbol.asyncIterator]: () => ({ next: never }) }),
  };
  const guests = { secret: () => Promise.resolve(secret), guest: () => Promise.resolve(silent), request: never };
  const shared = { service, callers, guests, secrets: {}, maxLifeSeconds: 60, hosts: [], version: "1" };
  server = await serveClientApi({
    port: 0,
    address: "127.0.0.1",
    dialects: [e2bDialect(shared as never), agentTierDialect(shared as never), mcpHttpDialect(shared as never)],
    metrics: clientApiMetrics(),
    clock: systemClock,
    log: serverLog,
  });
});
afterAll(async () => {
  await server.close();
  close();
  await client.close();
  apiServer.close();
  apiServer.closeAllConnections();
});

const agent = {
  [annotations.clientAgent]: JSON.stringify({ entrypoint: ["a"], installHash: "", configuredAt: "", installLog: "" }),
};
const ignore = (): void => undefined;
const serverLog: typeof silentLog = Object.assign({}, silentLog, {
  trace: ignore,
  fatal: ignore,
  child: () => serverLog,
  level: "silent",
});
const ready = {
  type: "Ready",
  status: "True",
  reason: "PodReady",
  message: "",
  lastTransitionTime: metadata.creationTimestamp,
};

beforeEach(() => {
  const created = newApiKey({ ...at, format: "e2b", random: randomBytes });
  ({ text, digest } = created);
  const spec = { serviceAccountName: at.name, digests: [{ digest }] };
  const keyMetadata = { ...metadata, ...at, uid: randomBytes(8).toString("hex") };
  key = ApiKey.parse({ apiVersion: rametApiVersion, kind: apiKeyKind.kind, metadata: keyMetadata, spec });
  callers.informer.store.put(key);
});

/** Revokes a key: deletes it, or replaces its value as a rotation without or with an overlap. */
const revocations: Record<string, () => void> = {
  deleted: () => {
    callers.informer.store.remove(key, true);
  },
  rotated: () => {
    replaceValues([{ digest: anotherDigest() }]);
  },
  "rotated and expires": () => {
    const expiresAt = new Date(Date.now() + 300).toISOString();
    replaceValues([{ digest: anotherDigest() }, { digest, expiresAt }]);
  },
};

function anotherDigest(): string {
  return newApiKey({ ...at, format: "e2b", random: randomBytes }).digest;
}

function replaceValues(digests: ApiKey["spec"]["digests"]): void {
  const changed = { ...key, metadata: { ...key.metadata, resourceVersion: "2" } };
  callers.informer.store.put({ ...changed, spec: { ...key.spec, digests } });
}

interface Open {
  line: string;
  headers?: string[];
  body?: string;
}

/** What a client has open when its key is revoked. */
const outlasting: Record<string, () => Open> = {
  "a request whose body arrives slowly": () => ({ line: "POST /sandboxes", body: "{" }),
  "a file upload": () => ({ line: "PUT /api/v1/sandboxes/dev/files/tmp/a", body: "a" }),
  "a file download": () => ({ line: "GET /api/v1/sandboxes/dev/files/tmp/a" }),
  "the input of an agent": () => ({ line: "POST /api/v1/sandboxes/dev/invoke", body: "a" }),
  "the output of an installation": () => {
    const body = JSON.stringify({ installCommand: ["sleep", "inf"], entrypoint: ["a"] });
    return { line: "POST /api/v1/sandboxes/dev/configure", headers: [`Content-Length: ${body.length}`], body };
  },
  "a command": () => {
    const body = JSON.stringify({ command: "sleep inf" });
    return { line: "POST /api/v1/sandboxes/dev/exec", headers: [`Content-Length: ${body.length}`], body };
  },
  "a terminal": () => {
    const upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
    return {
      line: "GET /ws/terminal/dev",
      headers: [...upgrade, `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`],
    };
  },
  "a call of MCP": () => ({ line: "POST /mcp", body: "{" }),
};

/** Sends a request that stays open. @returns the time of its end */
async function openRequest({ line, headers = [], body = "" }: Open, withKey = true): Promise<number> {
  const socket = connect(server.port, "127.0.0.1").on("error", ignore).resume();
  const closed = new Promise<number>((resolve) => {
    socket.once("close", () => {
      resolve(performance.now());
    });
  });
  const length =
    headers.some((each) => each.startsWith("Content-Length")) || body === "" ? [] : ["Content-Length: 1000"];
  const all = [
    `${line} HTTP/1.1`,
    "Host: localhost",
    ...(withKey ? [`X-API-Key: ${text}`] : []),
    ...length,
    ...headers,
  ];
  socket.write(`${all.join("\r\n")}\r\n\r\n${body}`);
  // It is open for a while before its key is revoked.
  await new Promise((resolve) => systemClock.schedule(1_000, resolve as () => void));
  expect(socket.closed || socket.readableEnded, line).toBe(false);
  return closed;
}

it.each(Object.keys(revocations))("ends everything that a key has open within a second when it is %s", async (how) => {
  const ends = Object.entries(outlasting).map(async ([name, open]) => [name, await openRequest(open())] as const);
  await new Promise((resolve) => systemClock.schedule(2_000, resolve as () => void));
  const revokedAt = performance.now();
  revocations[how]?.();
  for (const [name, endedAt] of await Promise.all(ends)) {
    const milliseconds = endedAt - revokedAt;
    expect([name, milliseconds > 0 && milliseconds < 1_000]).toEqual([name, true]);
  }
});

/** The path of a link for the files of a COPY step. */
function linkOf(tree: string): string {
  const expiresAt = Date.now() + 60_000;
  const link = {
    namespace: at.namespace,
    digest: tree.repeat(64),
    owner: "team-a/agent",
    ownerDigest: digest,
    expiresAt,
  };
  return `${uploadPath}/${signUploadLink(link, secret)}`;
}

/** Asks whether an upload may begin. */
function startUpload(path: string): { socket: Socket; received: () => string } {
  let received = "";
  const socket = connect(server.port, "127.0.0.1").on("error", ignore);
  socket.on("data", (bytes: Buffer) => (received += bytes.toString("latin1")));
  socket.write(`PUT ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n`);
  onTestFinished(() => {
    socket.destroy();
  });
  return { socket, received: () => received };
}

const begun = /^HTTP\/1\.1 100 /;

it.each(Object.keys(revocations))("ends an upload by a link, and refuses the link, when its key is %s", async (how) => {
  const link = linkOf("0");
  const put = async () => {
    const answer = await fetch(`http://127.0.0.1:${server.port}${link}`, { method: "PUT", body: "a" });
    return answer.status;
  };
  const upload = openRequest({ line: `PUT ${link}`, body: "a" }, false);
  await new Promise((resolve) => systemClock.schedule(2_000, resolve as () => void));
  const revokedAt = performance.now();
  revocations[how]?.();
  expect((await upload) - revokedAt).toBeLessThan(1_000);
  expect(await put()).toBe(401);
});

it("lets another upload of the same files wait until the first one is over", async () => {
  const link = linkOf("1");
  const first = startUpload(link);
  await expect.poll(first.received).toMatch(begun);
  const second = startUpload(link);
  await new Promise((resolve) => systemClock.schedule(500, resolve as () => void));
  expect(second.received()).toBe("");
  const more = Array.from({ length: 15 }, () => startUpload(link));
  await expect.poll(() => more.some(({ received }) => received().startsWith("HTTP/1.1 429 "))).toBe(true);
  first.socket.destroy();
  await expect.poll(second.received).toMatch(begun);
});

it("releases the upload of a pipelined request whose connection closes before its turn", async () => {
  const link = linkOf("2");
  const socket = connect(server.port, "127.0.0.1").on("error", ignore);
  const unanswered = `GET /api/v1/sandboxes/dev/files/tmp/a HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${text}\r\n\r\n`;
  socket.write(`${unanswered}PUT ${link} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\na`);
  await new Promise((resolve) => systemClock.schedule(500, resolve as () => void));
  const next = startUpload(link);
  await new Promise((resolve) => systemClock.schedule(500, resolve as () => void));
  expect(next.received()).toBe("");
  socket.destroy();
  await expect.poll(next.received).toMatch(begun);
});

it("ends what a key has open soon after its account has lost the rights, and refuses its upload links", async () => {
  const account = `account-${randomBytes(4).toString("hex")}`;
  callers.informer.store.put({
    ...key,
    metadata: { ...key.metadata, resourceVersion: "2" },
    spec: { ...key.spec, serviceAccountName: account },
  });
  const link = linkOf("3");
  const names = ["a file upload", "the input of an agent", "a command", "a terminal"];
  const ends = names.map(async (name) => [name, await openRequest(outlasting[name]!())] as const);
  ends.push(
    openRequest({ line: `PUT ${link}`, body: "a" }, false).then((end) => ["an upload by a link", end] as const),
  );
  await new Promise((resolve) => systemClock.schedule(2_000, resolve as () => void));
  const lostAt = performance.now();
  dismissed.push(account);
  for (const [name, endedAt] of await Promise.all(ends)) {
    const milliseconds = endedAt - lostAt;
    expect([name, milliseconds > 0 && milliseconds < 12_000]).toEqual([name, true]);
  }
  const answer = await fetch(`http://127.0.0.1:${server.port}${link}`, { method: "PUT", body: "a" });
  expect(answer.status).toBe(403);
});
