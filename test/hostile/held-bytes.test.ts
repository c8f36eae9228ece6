import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { annotations } from "../../src/api/names/labels.ts";
import { envelope } from "../../src/cell/client/guest-wire.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { allRights, createKey } from "../cluster/client-api-world.ts";
import { type GatewayProcess, GatewayWorld, namespace } from "./gateway-world.ts";

/**
 * Clients with valid keys, and strangers, who want to fill the memory and the connections of the built client API. The sandbox is an
 * object without a controller: its entrypoint never runs, because no body ends.
 */
const mebibyte = 1024 ** 2;
const sandbox = "agent";

let world: GatewayWorld;
let server: GatewayProcess;
let keys: string[];
/** Stands in for the gateway and the guest behind it. */
let guest: Server;
const open = new Set<Socket>();

beforeAll(async () => {
  world = await GatewayWorld.open();
  await world.sandbox(sandbox, () => undefined);
  const agent = { entrypoint: ["/bin/true"], installHash: "", configuredAt: "2030-01-01T00:00:00Z", installLog: "" };
  const noted = { metadata: { annotations: { [annotations.clientAgent]: JSON.stringify(agent) } } };
  await world.client.resource(sandboxResources.sandboxes).mergePatch({ namespace, name: sandbox }, noted);
  keys = await Promise.all(
    ["one", "two", "three", "honest"].map((name) => createKey(world.client, { namespace, name, rules: allRights })),
  );
  guest = createServer((request, response) => void answer(request, response));
  guest.listen(0, "127.0.0.1");
  await once(guest, "listening");
  server = await world.startClientApi(`http://127.0.0.1:${(guest.address() as AddressInfo).port}`);
});
afterAll(async () => {
  await server.child.kill();
  guest.closeAllConnections();
  guest.close();
  await world.close();
});
beforeEach(() => {
  for (const socket of open) socket.destroy();
});

interface Attack {
  localAddress?: string;
  head: string;
  /** What is sent after the headers. */
  body?: Buffer;
  /** How often. @default 1 */
  times?: number;
  /** The time between two. @default 0 */
  pauseMilliseconds?: number;
}

interface Sent {
  socket: Socket;
  received: () => string;
}

/** Sends a request, as far as the server reads it. */
function send({ localAddress = "127.0.0.2", head, body, times = 1, pauseMilliseconds = 0 }: Attack): Sent {
  const socket = connect({ port: server.port, host: "127.0.0.1", localAddress });
  open.add(socket);
  let received = "";
  socket.on("error", () => undefined).once("close", () => open.delete(socket));
  socket.on("data", (bytes: Buffer) => {
    received += bytes.toString("latin1");
    // A client that does not read its answer to the end.
    if (received.length > mebibyte) socket.pause();
  });
  socket.write(head);
  const sendBody = async (): Promise<void> => {
    for (let turn = 0; turn < times && body !== undefined && socket.writable; turn++) {
      if (!socket.write(body)) await once(socket, "drain");
      await delay(pauseMilliseconds);
    }
  };
  // A connection that the server closes takes no more.
  sendBody().catch(() => undefined);
  return { socket, received: () => received };
}

const head = (path: string, key: string | undefined, ...more: string[]): string =>
  [
    `POST ${path} HTTP/1.1`,
    "Host: server",
    ...(key === undefined ? [] : [`X-API-Key: ${key}`]),
    "Content-Type: application/json",
    ...more,
    "",
    "",
  ].join("\r\n");

const invoke = `/api/v1/sandboxes/${sandbox}/invoke`;

async function memory(field: "VmRSS" | "VmHWM"): Promise<number> {
  const status = await readFile(`/proc/${server.child.pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) / 1024;
}

/** An agent that is asked to stay reads its input and runs on. Other commands print. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await text(request);
  if (request.url?.endsWith("/CloseStdin") === true)
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  else if (request.url?.endsWith("/StreamInput") === true)
    response.writeHead(200, { "content-type": "application/connect+json" }).end(lastEnvelope());
  else if (body.includes("--prompt=stay"))
    response
      .writeHead(200, { "content-type": "application/connect+json" })
      .write(envelope({ event: { start: { pid: 7 } } }));
  else printWithoutEnd(response);
}

/** A command that prints 31 MiB of NUL bytes, each of which is six characters in JSON. */
function printWithoutEnd(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/connect+json" });
  const part = envelope({ event: { data: { stdout: Buffer.alloc(16 * 1024).toString("base64") } } });
  const events = function* (): Generator<Buffer> {
    yield envelope({ event: { start: { pid: 7 } } });
    for (let left = printedBytes; left > 0; left -= 16 * 1024) yield part;
    yield envelope({ event: { end: { exitCode: 3, exited: true } } });
    yield lastEnvelope();
  };
  Readable.from(events()).pipe(response);
}

function lastEnvelope(): Buffer {
  const end = envelope({});
  end[0] = 2;
  return end;
}

const printedBytes = 31 * mebibyte;

interface Seen {
  /** MiB above the memory at rest. */
  grownBy: number;
  slowestHealthMilliseconds: number;
  refused: number;
}

/** Runs a flood for a while, at most until the server has refused enough of it, and asks for the health of the server meanwhile. */
async function under(flood: readonly Attack[], least: number): Promise<Seen> {
  const atRest = await memory("VmRSS");
  const requests = flood.map(send);
  let peak = atRest;
  let slowest = 0;
  const isRefused = ({ received }: Sent): boolean => {
    if (/^HTTP\/1\.1 413 [^]*its output cannot be collected/.test(received())) return true;
    if (!/^HTTP\/1\.1 (429|503) /.test(received())) return false;
    expect(received()).toMatch(/\r\nretry-after: \d+\r\n/i);
    return true;
  };
  const start = performance.now();
  const isEnough = (): boolean => requests.filter(isRefused).length >= least;
  while (performance.now() - start < (isEnough() ? observedMilliseconds : longestMilliseconds)) {
    await delay(50);
    const before = performance.now();
    const { status } = await fetch(`http://127.0.0.1:${server.port}/health`);
    expect(status).toBe(204);
    slowest = Math.max(slowest, performance.now() - before);
    peak = Math.max(peak, await memory("VmRSS"));
  }
  return {
    grownBy: peak - atRest,
    slowestHealthMilliseconds: slowest,
    refused: requests.filter(isRefused).length,
  };
}

const observedMilliseconds = 6_000;
const longestMilliseconds = 30_000;

/** Far above what the benchmark of floods measures, because other tests run meanwhile. */
const bounded = (least: number) => ({
  grownBy: expect.toSatisfy((value: number) => value < 256, "less than 256 MiB") as unknown,
  slowestHealthMilliseconds: expect.toSatisfy((value: number) => value < 10_000, "within ten seconds") as unknown,
  refused: expect.toSatisfy((value: number) => value >= least, `at least ${least}`) as unknown,
});

it("bounds the bodies of one key that declare 16 MiB and never end", async () => {
  const declared = head(invoke, keys[0], `Content-Length: ${16 * mebibyte}`);
  const body = Buffer.alloc(mebibyte, "a");
  const seen = await under(
    Array.from({ length: 60 }, () => ({ head: declared, body, times: 15 })),
    50,
  );
  expect(seen).toEqual(bounded(50));
});

it("bounds the chunked bodies of several keys", async () => {
  const body = Buffer.concat([Buffer.from("100000\r\n"), Buffer.alloc(mebibyte, "a"), Buffer.from("\r\n")]);
  const flood = Array.from({ length: 60 }, (_, turn) => ({
    localAddress: `127.0.0.${2 + (turn % 3)}`,
    head: head(invoke, keys[turn % 3], "Transfer-Encoding: chunked"),
    body,
    times: 15,
  }));
  expect(await under(flood, 45)).toEqual(bounded(45));
});

it("bounds bodies that arrive in single bytes", async () => {
  const body = Buffer.from("1\r\na\r\n".repeat(mebibyte / 64));
  const slow = { body, times: 16, pauseMilliseconds: 300 };
  const flood = Array.from({ length: 8 }, () => ({
    head: head(invoke, keys[0], "Transfer-Encoding: chunked"),
    ...slow,
  }));
  expect(await under(flood, 4)).toEqual(bounded(4));
});

it("bounds bodies of JSON that are small and become many objects", async () => {
  const text = `{"files":[${"{},".repeat(1_390_000)}{}]}`;
  const flood = Array.from({ length: 12 }, () => ({
    head: head(`/api/v1/sandboxes/${sandbox}/configure`, keys[0], `Content-Length: ${text.length}`),
    body: Buffer.from(text),
  }));
  expect(await under(flood, 0)).toEqual(bounded(0));
  const refused = send(flood[0] ?? { head: "" });
  await expect.poll(refused.received).toMatch(/^HTTP\/1\.1 400 [^]*more than 100000 values/);
  // A file has any characters.
  const file = JSON.stringify({ files: [{ path: "/a", content: '{},[\\",'.repeat(100_000) }] });
  const headers = head(`/api/v1/sandboxes/${sandbox}/configure`, keys[0], `Content-Length: ${file.length}`);
  const accepted = send({ head: headers, body: Buffer.from(file) });
  await expect.poll(accepted.received).toMatch(/^HTTP\/1\.1 200 [^]*uploading \/a/);
});

it("gives a key its share again when its requests have ended, and each key and address its own", async () => {
  const declared = head(invoke, keys[0], `Content-Length: ${16 * mebibyte}`);
  const first = Array.from({ length: 4 }, () => send({ head: declared }));
  await delay(500);
  const second = send({ head: declared });
  const ofAnother = send({ head: head(invoke, keys[1], "Content-Length: 1"), body: Buffer.from("a") });
  await expect.poll(second.received).toMatch(/^HTTP\/1\.1 429 [^]*\r\n\r\n\{"error":".*bytes in flight/);
  await expect.poll(ofAnother.received).toMatch(/^HTTP\/1\.1 200 /);
  expect(first.map(({ received }) => received())).toEqual(["", "", "", ""]);
  first[0]?.socket.destroy();
  const received = async (): Promise<string> => {
    const third = send({ head: declared });
    await delay(300);
    return third.received();
  };
  await expect.poll(received).toBe("");
});

it("holds the input of an agent until the sandbox has it, and not until the agent ends", async () => {
  const body = Buffer.alloc(16 * mebibyte, "a");
  const staying = { head: head(`${invoke}?prompt=stay`, keys[0], `Content-Length: ${body.length}`), body };
  const first = Array.from({ length: 4 }, () => send(staying));
  for (const { received } of first)
    await expect.poll(received, { timeout: 30_000 }).toMatch(/^HTTP\/1\.1 200 [^]*event: start/);
  const received = async (): Promise<string> => {
    const next = send(staying);
    await once(next.socket, "data");
    return next.received();
  };
  await expect.poll(received, { timeout: 30_000 }).toMatch(/^HTTP\/1\.1 200 /);
  expect(first.filter(({ socket, received: all }) => socket.destroyed || all().includes("event: exit"))).toEqual([]);
});

it("bounds the output of commands, which it sends in pieces", async () => {
  const body = JSON.stringify({ command: "head -c 32505856 /dev/zero" });
  const exec = (key: string | undefined) =>
    head(`/api/v1/sandboxes/${sandbox}/exec`, key, `Content-Length: ${body.length}`, "Connection: close") + body;
  const answer = await fetch(`http://127.0.0.1:${server.port}/api/v1/sandboxes/${sandbox}/exec`, {
    method: "POST",
    headers: { "x-api-key": keys[0] ?? "", "content-type": "application/json" },
    body,
  });
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
  const { stdout, ...ended } = (await answer.json()) as { stdout: string; stderr: string; exitCode: number };
  expect(ended).toEqual({ stderr: "", exitCode: 3 });
  expect(stdout === "\0".repeat(printedBytes)).toBe(true);
  const flood = Array.from({ length: 12 }, (_, turn) => ({ head: exec(keys[turn % 2]) }));
  expect(await under(flood, 8)).toEqual(bounded(8));
});

it("limits the requests of a key that are in progress", async () => {
  const rules = allRights;
  const key = await createKey(world.client, { namespace, name: "few", rules, limits: { concurrentRequests: 2 } });
  const slow = head("/sandboxes", key, "Content-Length: 10");
  const requests = Array.from({ length: 3 }, () => send({ head: slow }));
  await expect.poll(() => requests.filter(({ received }) => received() !== "").length).toBe(1);
  const [refused] = requests.filter(({ received }) => received() !== "");
  expect(refused?.received()).toMatch(/\r\nretry-after: 1\r\n[^]*"code":429,.*too many requests in progress/i);
});

it("keeps strangers from occupying the connections of clients with keys", async () => {
  const strangers = Array.from({ length: 5_200 }, (_, turn) => ({
    localAddress: `127.0.0.${2 + (turn % 2)}`,
    head: "GET /health HTTP/1.1\r\nHost:",
  }));
  const get = `GET /v2/sandboxes HTTP/1.1\r\nHost: server\r\nX-API-Key: ${keys[3] ?? ""}\r\n\r\n`;
  const early = send({ head: get });
  await expect.poll(early.received).toMatch(/^HTTP\/1\.1 200 /);
  for (const stranger of strangers) send(stranger);
  await delay(1_000);
  const late = send({ localAddress: "127.0.0.5", head: get });
  await expect.poll(late.received).toMatch(/^HTTP\/1\.1 200 /);
  expect(early.socket.destroyed).toBe(false);
  // The strangers leave soon, the clients stay.
  await expect.poll(() => open.size, { timeout: 20_000 }).toBe(2);
  late.socket.write(get);
  await expect.poll(() => late.received().match(/HTTP\/1\.1 200 /g)?.length).toBe(2);
});
