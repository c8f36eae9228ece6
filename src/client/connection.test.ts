import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RametError, Sandbox } from "./index.ts";

/** A stand-in for the server and the gateway, which answers each request as a test says. */
let url: string;
let requests: { method: string; path: string; key: string }[];
let pings: unknown[];
let answers: ((request: IncomingMessage, response: ServerResponse) => unknown)[];
let close: () => void;

beforeEach(async () => {
  [requests, answers, pings] = [[], [], []];
  const server = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"] ?? "");
    const ping = request.headers["keepalive-ping-interval"];
    if (ping !== undefined) pings.push(ping);
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

  it("does not keep the reader of a command without an end, which is sent messages while it prints nothing", async () => {
    const { commands } = await sandbox();
    answers = [stream(start)];
    const error = await failure(commands.run("true", { timeoutMs: 0 }));
    expect([error.code, pings]).toEqual(["Timeout", ["1"]]);
  });
});

it("joins events that arrive in any parts", async () => {
  const { checkpoint } = await sandbox();
  const result = `event: result\ndata: ${JSON.stringify({ message: "ä".repeat(3) })}\n\n`;
  const bytes = Buffer.from(`: a comment\n\n${progress}${result}`);
  answers = [
    async (_, response) => {
      response.writeHead(200);
      for (const byte of bytes) await new Promise((sent) => response.write(Buffer.of(byte), sent));
      response.end();
    },
  ];
  const states: unknown[] = [];
  const onProgress = ({ state }: { state: string }) => void states.push(state);
  expect(await checkpoint.wait({ checkpoint_id: "c", onProgress })).toEqual({ message: "äää" });
  expect(states).toEqual(["starting"]);
});

it("rejects a call without a key, and does not throw", async () => {
  const { code } = await failure(Sandbox.list({ ...connection(), apiKey: undefined as unknown as string }));
  expect(code).toBe("Unauthorized");
});

describe("a creation", () => {
  it("whose progress cannot be reported leaves no sandbox", async () => {
    answers = [opened("starting"), json({}, 204)];
    const onProgress = () => Promise.reject(new Error("no display"));
    await expect(Sandbox.create({ ...connection(), onProgress })).rejects.toThrow("no display");
    expect(pathsOf("DELETE")).toEqual(["/ramet/v1/sandboxes/s1"]);
  });

  it.each([
    [
      "its caller aborts",
      (abort: AbortController) => ({
        abort: () => {
          abort.abort();
        },
        code: "Canceled",
      }),
    ],
    ["its time ends", () => ({ abort: () => undefined, code: "Timeout", startTimeoutMs: 200 })],
  ])("leaves no sandbox if %s before the answer", async (_, how) => {
    const controller = new AbortController();
    const { abort, code, ...options } = how(controller);
    const failed = Promise.withResolvers<unknown>();
    answers = [
      async (...given) => {
        abort();
        await failed.promise;
        opened("running")(...given);
      },
      json({}, 204),
    ];
    const error = await failure(Sandbox.create({ ...connection(), ...options, signal: controller.signal }));
    failed.resolve(undefined);
    expect(error.code).toBe(code);
    await expect.poll(() => pathsOf("DELETE")).toEqual(["/ramet/v1/sandboxes/s1"]);
    const sent = requests.length;
    expect(await failure(Sandbox.create({ ...connection(), signal: AbortSignal.abort() }))).toMatchObject({
      code: "Canceled",
    });
    expect(requests).toHaveLength(sent);
  });

  it("that its caller aborts leaves no sandbox", async () => {
    const abort = new AbortController();
    let states = 0;
    answers = [opened("starting"), silent(progress), json({}, 204)];
    const onProgress = () => {
      if (++states === 2) abort.abort();
    };
    const { code } = await failure(Sandbox.create({ ...connection(), signal: abort.signal, onProgress }));
    expect([code, pathsOf("DELETE")]).toEqual(["Canceled", ["/ramet/v1/sandboxes/s1"]]);
  });

  it("has a signal that does not end what the sandbox does later", async () => {
    const abort = new AbortController();
    answers = [opened("running"), opened("running"), json({ state: "running" })];
    const created = await Sandbox.create({ ...connection(), signal: abort.signal });
    const connected = await Sandbox.connect("s1", { ...connection(), signal: abort.signal });
    abort.abort();
    for (const each of [created, connected]) expect(await each.isRunning()).toBe(true);
    const { signal } = abort;
    expect(await failure(created.getInfo({ signal }))).toMatchObject({ code: "Canceled" });
  });
});

describe("a deletion of what does not exist", () => {
  it("succeeds", async () => {
    const { checkpoint, ...found } = await sandbox();
    answers = [json({ code: "NotFound", message: "gone" }, 404)];
    expect(await checkpoint.delete("c")).toBe(false);
    expect(await Sandbox.kill(found.sandboxId, connection())).toBe(false);
    answers = [json({ code: "Forbidden", message: "no" }, 403)];
    expect(await failure(checkpoint.delete("c"))).toMatchObject({ code: "Forbidden" });
  });
});

describe("the output of a command", () => {
  const run = async (options: object, ...parts: Buffer[]) => {
    const { commands } = await sandbox();
    answers = [stream(start, ...parts, ended)];
    return commands.run("true", options);
  };

  it("is an error beyond its limit, but callbacks get all of it", async () => {
    const seen: string[] = [];
    const onStdout = (text: string) => void seen.push(text);
    const error = await failure(
      run({ maxOutputBytes: 10, onStdout }, printed("12345"), printed("67890x"), printed("y")),
    );
    expect(error).toMatchObject({ code: "OutOfRange", hint: expect.any(String) as unknown });
    expect(seen).toEqual(["12345", "67890x", "y"]);
    expect(await run({ maxOutputBytes: 10 }, printed("1234567890"))).toMatchObject({ stdout: "1234567890" });
  });

  it("is not collected with a limit of 0", async () => {
    const seen: string[] = [];
    const onStdout = (text: string) => void seen.push(text);
    const result = await run({ maxOutputBytes: 0, onStdout }, printed("12345"));
    expect([result.stdout, seen]).toEqual(["", ["12345"]]);
  });

  it("ends with an error if a message claims to be too large", async () => {
    const huge = Buffer.from([0, 255, 255, 255, 255]);
    expect(await failure(run({}, huge))).toMatchObject({ code: "OutOfRange" });
  });
});

it("does not read more of a file than was allowed", async () => {
  const { files } = await sandbox();
  answers = [(_, response) => response.writeHead(200).end("0123456789")];
  expect(await failure(files.read("/a", { maxBytes: 9 }))).toMatchObject({ code: "OutOfRange" });
  expect(await files.read("/a", { maxBytes: 10 })).toBe("0123456789");
  const read = await files.read("/a", { maxBytes: 9, format: "stream" });
  expect(await new Response(read).text()).toBe("0123456789");
});

it("asks a server that ends its events at once again more and more rarely", async () => {
  const { checkpoint } = await sandbox();
  answers = [events(progress)];
  const error = await failure(checkpoint.wait({ checkpoint_id: "c", timeoutMs: 1_500 }));
  expect(error.code).toBe("Timeout");
  expect(pathsOf("GET").length).toBeLessThan(8);
});

it("sends a stream once, also if it is refused for its rate", async () => {
  const { files } = await sandbox();
  answers = [json({ code: "TooManyRequests", message: "later" }, 429), json([{ path: "/a", type: "file" }])];
  const body = new Blob(["text"]).stream() as ReadableStream<Uint8Array>;
  expect(await failure(files.write("/a", body))).toMatchObject({ code: "TooManyRequests" });
  answers.unshift(json({ code: "TooManyRequests", message: "later" }, 429));
  expect(await files.write("/a", "text")).toMatchObject({ path: "/a" });
});

describe("what takes longer than a request", () => {
  const still = json({ code: "Timeout", message: "still" }, 504);
  const restored = json({ ok: true, checkpoint_id: "c", restore_duration_ms: 1, stopped: null, started: null });
  it.each([
    ["a pause", "pause", json({ state: "paused" }), (given: Sandbox, options: object) => given.pause(options)],
    ["a resume", "connect", opened("running"), (given: Sandbox, options: object) => given.resume(options)],
    ["a restore", "restore", restored, (given: Sandbox, o: object) => given.checkpoint.restore("c", o)],
  ])("is awaited until the caller's limit: %s", async (_, path, answer, call) => {
    const given = await sandbox();
    answers = [still, still, answer];
    await call(given, {});
    const sent = requests.filter((each) => each.path.endsWith(path));
    // The same request, which the server knows again.
    expect(sent[0]?.key).not.toBe("");
    expect([sent.length, new Set(sent.map(({ key }) => key)).size]).toEqual([3, 1]);
    answers = [still];
    expect(await failure(call(given, { waitTimeoutMs: 300 }))).toMatchObject({ code: "Timeout" });
  });
});
