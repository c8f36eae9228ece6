import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RametError, Sandbox } from "./index.ts";

/** A stand-in for the server and the gateway, which answers each request as a test says. */
let url: string;
let requests: { method: string; path: string; key: string }[];
let answers: ((request: IncomingMessage, response: ServerResponse) => unknown)[];
let close: () => void;

beforeEach(async () => {
  [requests, answers] = [[], []];
  const server = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"] ?? "");
    requests.push({ method: request.method ?? "", path: request.url ?? "", key });
    // The last answer repeats.
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    request.resume().on("end", () => answer?.(request, response));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  close = () => {
    server.close();
    server.closeAllConnections();
  };
});
afterEach(() => {
  close();
});

const connection = () => ({ apiKey: "e2b_00", apiUrl: url, sandboxUrl: url, requestTimeoutMs: 2_000 });
const json =
  (body: object, status = 200, headers: Record<string, string> = {}) =>
  (_request: IncomingMessage, response: ServerResponse) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
/** Sends a part of an answer, and then nothing. */
const silent =
  (part = "") =>
  (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(200).flushHeaders();
    response.write(part);
  };
const events =
  (...texts: string[]) =>
  (_request: IncomingMessage, response: ServerResponse) =>
    response.writeHead(200).end(texts.join(""));
const opened = (state: string) =>
  json({ sandbox: { sandbox_id: "s1", name: "s", state }, access: { token: "t", traffic_token: "u", domain: null } });
const progress = `event: progress\ndata: ${JSON.stringify({ state: "starting" })}\n\n`;
/** Of a request that the stand-in answers with "no such path" to nothing. */
const pathsOf = (method: string) => requests.filter((each) => each.method === method).map(({ path }) => path);

async function sandbox(): Promise<Sandbox> {
  answers.unshift(opened("running"));
  return Sandbox.create(connection());
}

async function failure(work: Promise<unknown>): Promise<RametError> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RametError);
  return error as RametError;
}

/** A message of a stream of a guest. */
function framed(message: object, flags = 0): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}
const start = framed({ event: { start: { pid: 7 } } });
const printed = (text: string) => framed({ event: { data: { stdout: Buffer.from(text).toString("base64") } } });
const ended = Buffer.concat([framed({ event: { end: { exitCode: 0, exited: true } } }), framed({}, 2)]);
const stream =
  (...parts: Buffer[]) =>
  (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(200).flushHeaders();
    for (const part of parts) response.write(part);
  };

describe("a server that falls silent", () => {
  it.each([
    ["before its answer", () => undefined],
    ["after the beginning of its answer", silent(progress)],
  ])("%s does not keep a wait longer than its time", async (_, answer) => {
    const { checkpoint } = await sandbox();
    answers = [answer];
    const error = await failure(checkpoint.wait({ checkpoint_id: "c", timeoutMs: 200 }));
    expect(error.code).toBe("Timeout");
  });

  it("does not keep a creation longer than its time, and the sandbox is deleted", async () => {
    answers = [opened("starting"), silent(progress), json({}, 204)];
    const error = await failure(Sandbox.create({ ...connection(), startTimeoutMs: 200 }));
    expect(error.code).toBe("Timeout");
    expect(pathsOf("DELETE")).toEqual(["/ramet/v1/sandboxes/s1"]);
  });

  it("in its answer to a creation does not keep it longer than its time", async () => {
    answers = [silent("{")];
    expect(await failure(Sandbox.create({ ...connection(), startTimeoutMs: 200 }))).toMatchObject({ code: "Timeout" });
  });

  it("does not keep a wait that its caller aborts", async () => {
    const { checkpoint } = await sandbox();
    answers = [silent(progress)];
    const abort = new AbortController();
    const onProgress = () => {
      abort.abort();
    };
    const waiting = checkpoint.wait({ checkpoint_id: "c", timeoutMs: 0, signal: abort.signal, onProgress });
    expect(await failure(waiting)).toMatchObject({ code: "Canceled" });
  });

  it.each([
    ["a list", () => Sandbox.list({ ...connection(), requestTimeoutMs: 200 })],
    ["a file", async () => (await sandbox()).files.read("/a", { requestTimeoutMs: 200 })],
    ["a stat", async () => (await sandbox()).files.getInfo("/a", { requestTimeoutMs: 200 })],
  ])("does not keep the reader of %s", async (_, read) => {
    answers = [silent("{")];
    expect((await failure(read())).code).toBe("Timeout");
  });

  it("does not keep the reader of a command longer than the command's time", async () => {
    const { commands } = await sandbox();
    answers = [stream(start)];
    expect(await failure(commands.run("true", { timeoutMs: 100 }))).toMatchObject({ code: "Timeout" });
  });
});
