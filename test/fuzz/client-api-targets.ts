import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { systemClock } from "../../src/base/clock.ts";
import { RametError } from "../../src/base/errors.ts";
import { type Log, silentLog } from "../../src/base/log.ts";
import type { E2b } from "../../src/client-api/dialects/e2b/call.ts";
import { e2bDialect, e2bRoutes } from "../../src/client-api/dialects/e2b/routes.ts";
import { nativeDialect, nativePrefix, nativeRoutes } from "../../src/client-api/dialects/native/routes.ts";
import { sandbox0Dialect, sandbox0Routes } from "../../src/client-api/dialects/sandbox0/routes.ts";
import type { Callers } from "../../src/client-api/keys/callers.ts";
import { clientApiMetrics } from "../../src/client-api/metrics.ts";
import { type ClientApiServer, serveClientApi } from "../../src/client-api/server.ts";
import { ClientSecrets } from "../../src/client-api/service/client-secrets.ts";
import { Guests } from "../../src/client-api/service/guests.ts";
import { clientInformers, serviceParts } from "../../src/client-api/service/parts.ts";
import { explicitConnection } from "../../src/kube/connection.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { sampleOf } from "../setup/route-samples.ts";
import { bytesLike, jsonLike, textsLike } from "./inputs.ts";
import { exchange, honestExchange } from "./raw-server.ts";
import { assertThat, target } from "./target.ts";

const uid = "11111111-2222-4333-8444-555555555555";
const ids = [uid, uid.replaceAll("-", ""), "team-a--dev", "c-1", "c-1:default", "team-a/state:v1", "../dev", "%2e%2e"];
const batch = 16;

interface ClientApiWorld {
  server: ClientApiServer;
  apiServer: Server;
  client: KubeClient;
  close: () => void;
  problems: unknown[];
}

/** The server with stand-ins for the API server, which finds nothing, and for keys: everyone may do everything. */
async function openClientApi(): Promise<ClientApiWorld> {
  const apiServer = createServer((_, response) => {
    response.writeHead(404, { "content-type": "application/json" });
    response.end(JSON.stringify({ kind: "Status", status: "Failure", reason: "NotFound", code: 404 }));
  });
  apiServer.listen(0, "127.0.0.1");
  await once(apiServer, "listening");
  const { port } = apiServer.address() as AddressInfo;
  const client = new KubeClient(explicitConnection({ server: `http://127.0.0.1:${port}` }));
  const informers = clientInformers(client, { log: silentLog });
  informers.sandboxes.store.put(aSandbox);
  informers.checkpoints.store.put(aCheckpoint);
  const service = serviceParts(client, informers, new Map());
  const problems: unknown[] = [];
  const caller = { namespace: "team-a", key: "team-a/agent", user: { user: "agent", groups: [] }, limits: noLimits };
  const callers = {
    authenticate: () => Promise.resolve(caller),
    rates: { take: () => 0 },
    endWhenRevoked: () => () => undefined,
    require: () => Promise.resolve(),
  };
  const unreachable = () => Promise.reject(new RametError("Unavailable", "the sandbox is a stand-in"));
  const secret = () => Promise.resolve(Buffer.alloc(32));
  const guests = Object.assign(new Guests(client, secret), {
    guest: unreachable,
    request: unreachable,
    read: unreachable,
  });
  const options: E2b = {
    service,
    callers: callers as unknown as Callers,
    guests,
    secrets: new ClientSecrets(client),
    maxLifeSeconds: 3600,
  };
  const server = await serveClientApi({
    port: 0,
    address: "127.0.0.1",
    dialects: [e2bDialect(options), sandbox0Dialect(options), nativeDialect(options)],
    metrics: clientApiMetrics(),
    clock: systemClock,
    log: problemsLog(problems),
  });
  return { server, apiServer, client, close: service.close, problems };
}

const noLimits = {
  sandboxes: Infinity,
  requestsPerSecond: Infinity,
  concurrentRequests: Infinity,
  bytesInFlight: Infinity,
  snapshotBytes: Infinity,
};
const metadata = { namespace: "team-a", resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z" };
const aSandbox = Sandbox.parse({
  apiVersion,
  kind: "Sandbox",
  metadata: { ...metadata, name: "dev", uid },
  spec: { template: { spec: { containers: [{ name: "main", image: "python" }] } } },
  status: { phase: "Running" },
});
const aCheckpoint = Checkpoint.parse({
  apiVersion,
  kind: "Checkpoint",
  metadata: { ...metadata, name: "one", uid: uid.replace("1", "2") },
  spec: { sandboxName: "dev" },
  status: { phase: "Succeeded", checkpointId: "c-1" },
});

/** Failures that a client does not cause. What a stand-in does not have is not one. */
function problemsLog(problems: unknown[]): Log {
  const error = (fields: object, message: string): void => {
    const { err } = fields as { err?: unknown };
    if (!(err instanceof RametError) || err.code === "Internal") problems.push([message, String(err)]);
  };
  const ignore = (): void => undefined;
  const log = { debug: ignore, info: ignore, warn: ignore, error };
  return Object.assign(log, { trace: ignore, fatal: error, child: () => log, level: "debug" });
}

const routes = [
  ...e2bRoutes.filter(({ path }) => path !== "/health"),
  ...sandbox0Routes.map((route) => ({ ...route, path: `/sandbox0${route.path}` })),
  ...nativeRoutes.map((route) => ({ ...route, path: `${nativePrefix}${route.path}` })),
];

/** A request for one route, whose ids, query and body are like valid ones. */
const requestOfRoute = fc.nat({ max: routes.length - 1 }).chain((number) => {
  const route = routes[number]!;
  const parameters = route.path.match(/:\w+|\*/g) ?? [];
  const { path, body } = sampleOf(route, () => "\0");
  const query = path.split("?")[1];
  return fc.record({
    method: fc.constant(route.method),
    pattern: fc.constant(route.path),
    ids: fc.array(textsLike(ids, ["/", "%", "..", ":", "@"]), {
      minLength: parameters.length,
      maxLength: parameters.length,
    }),
    query: fc.option(
      textsLike([query ?? "limit=1&nextToken=a", "state=running,paused&order=asc&metadata=a%3Db"], ["&", "="]),
    ),
    body: body === undefined ? fc.constant("") : jsonLike([body]),
  });
});

type RequestOfRoute = typeof requestOfRoute extends fc.Arbitrary<infer T> ? T : never;

function textOf({ method, pattern, ids: given, query, body }: RequestOfRoute): string {
  const rest = [...given];
  // A space or a line break would end the path.
  const path = pattern.replace(/:\w+|\*/g, () => visible(rest.shift() ?? ""));
  const target = query === null ? path : `${path}?${visible(query)}`;
  const head = [`${method} ${target} HTTP/1.1`, "Host: api", "X-API-Key: e2b_00", "Connection: close"];
  const bytes = Buffer.byteLength(body);
  return [...head, "Content-Type: application/json", `Content-Length: ${bytes}`, "", body].join("\r\n");
}

function visible(text: string): string {
  return text.replaceAll(/[^\x21-\x7e]/g, (character) =>
    encodeURIComponent(character.isWellFormed() ? character : "?"),
  );
}

const samples = routes.map((route) => {
  const { path, body } = sampleOf(route, () => "c-1");
  return textOf({ method: route.method, pattern: path, ids: [], query: null, body: JSON.stringify(body ?? {}) });
});
const tokens = [
  "\r\n",
  "HTTP/1.1",
  "Transfer-Encoding: chunked\r\n",
  "Content-Length: -1\r\n",
  "Expect: 100-continue\r\n",
  "//",
  "%00",
  "/../",
];

async function checkAnswers(texts: readonly Buffer[], { server, problems }: ClientApiWorld): Promise<void> {
  const to = { host: "127.0.0.1", port: server.port };
  const answers = await Promise.all(texts.map((text) => exchange(to, [text])));
  for (const answer of answers) {
    // 501 and 503 name what is missing here.
    assertThat(!/^HTTP\/1\.1 50[0245-9]/.test(answer), `the client API answers ${answer}`);
  }
  const [problem] = problems.splice(0);
  assertThat(problem === undefined, `an unexpected failure: ${String(problem)}`);
  const honest = await honestExchange(to, "GET /health HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n");
  assertThat(honest.startsWith("HTTP/1.1 204"), `honest clients get ${honest}`);
}

async function closeClientApi({ server, apiServer, client, close }: ClientApiWorld): Promise<void> {
  await server.close();
  close();
  await client.close();
  apiServer.close();
  apiServer.closeAllConnections();
}

/** The routes of the client API, from its table. */
export const clientApiTargets = [
  target({
    name: "client API, by route",
    share: 3,
    batch,
    inputs: fc.array(requestOfRoute, { minLength: 1, maxLength: batch, size: "max" }),
    world: openClientApi,
    check: (inputs, world) =>
      checkAnswers(
        inputs.map((input) => Buffer.from(textOf(input))),
        world,
      ),
    close: closeClientApi,
  }),
  target({
    name: "client API, raw",
    share: 3,
    batch,
    inputs: fc.array(bytesLike(samples, tokens), { minLength: 1, maxLength: batch, size: "max" }),
    world: openClientApi,
    check: checkAnswers,
    close: closeClientApi,
  }),
];
