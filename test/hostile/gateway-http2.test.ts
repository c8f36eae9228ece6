import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, createServer, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { makeNamespace } from "../setup/namespace.ts";
import { GatewayWorld, type GatewayProcess, head, namespace, type RawConnection } from "./gateway-world.ts";
import { flags, frame, frameTypes, framesIn, literals, preface, uint32 } from "./http2-frames.ts";

/** Hostile clients and programs that speak HTTP/2, at the built gateway. Each test ends with a client that is still served. */
let world: GatewayWorld;
let gateway: GatewayProcess;

const port = 8000;
const otherNamespace = "other";
/** The heads of the requests that the program with HTTP/1.1 got. */
const received: string[] = [];
/** The open requests at the program with HTTP/2, and how many it got. */
let [held, started] = [0, 0];

beforeAll(async () => {
  world = await GatewayWorld.open();
  await makeNamespace(world.client, otherNamespace);
  const h2 = createServer({ maxSessionMemory: 1000 }).on("stream", (stream, headers) => {
    [held, started] = [held + 1, started + 1];
    stream.on("error", () => undefined).once("close", () => held--);
    stream.respond({ ":status": 200 });
    if (headers[":path"] !== "/hold") stream.end("h2");
  });
  h2.on("sessionError", () => undefined);
  const speaker = (stream: Duplex): void => {
    h2.emit("connection", stream);
  };
  for (const [name, inNamespace] of [
    ["a", namespace],
    ["b", namespace],
    ["c", otherNamespace],
  ] as const)
    await world.sandbox(name, speaker, { publicPorts: [port], inNamespace });
  await world.sandbox(
    "http1",
    (stream) => {
      stream.once("data", (request: Buffer) => {
        received.push(request.toString("latin1"));
        stream.end("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
      });
    },
    { publicPorts: [port] },
  );
  await world.sandbox("bad", (stream, number) => programs[number - firstProgram]?.[1](stream), {
    publicPorts: programs.map((_, at) => firstProgram + at),
  });
});
afterAll(() => world.close());
afterEach(async () => {
  expect(await gateway.exchange(head("http1", port, ["Connection: close"]), "127.0.0.250")).toMatch(/^HTTP\/1.1 200 /);
  await gateway.child.kill();
});

const grpc = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };
const to = (sandbox: string, number = port, inNamespace = namespace) => ({
  "e2b-sandbox-id": `${inNamespace}--${sandbox}`,
  "e2b-sandbox-port": String(number),
});

function open(localAddress = "127.0.0.1"): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${gateway.port}`, { localAddress } as object);
  return session.on("error", () => undefined);
}

/** Sends a request and returns its status, or for gRPC the number of its error; undefined if the stream is reset. */
async function statusOf(session: ClientHttp2Session, headers: Record<string, string>): Promise<string | undefined> {
  return responseOf(session.request(headers, { endStream: true }));
}

async function responseOf(stream: ClientHttp2Stream): Promise<string | undefined> {
  let found: string | undefined;
  stream
    .on("response", ({ ":status": code, "grpc-status": status }) => (found = status?.toString() ?? String(code)))
    .on("error", () => undefined)
    .resume();
  // Unlike `once` of node:events, it does not reject when the stream fails.
  await new Promise((resolve) => stream.once("close", resolve));
  return found;
}

/** Opens a gRPC call that does not end. */
async function hold(
  session: ClientHttp2Session,
  sandbox = "a",
  more: Record<string, string> = {},
): Promise<ClientHttp2Stream> {
  const stream = session.request({ ...grpc, ":path": "/hold", ...to(sandbox), ...more }, { endStream: true });
  stream.on("error", () => undefined);
  await once(stream, "response");
  return stream;
}

/** A connection that has sent the preface and its settings. */
async function raw(localAddress?: string): Promise<RawConnection> {
  const connection = await gateway.connect(localAddress);
  connection.socket.write(Buffer.concat([Buffer.from(preface), frame("settings")]));
  return connection;
}

/** Whether the gateway has sent anything about the first request, or has ended the connection. */
const hasAnswer = ({ socket, received: bytes }: RawConnection): boolean =>
  socket.closed ||
  framesIn(Buffer.from(bytes, "latin1")).some(({ type, stream }) => stream === 1 || type === frameTypes.goaway);

const requestTo = (sandbox: string, more: [string, string][] = []): [string, string][] => [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "x"],
  ...Object.entries(to(sandbox)),
  ...more,
];

async function residentMebibytes(): Promise<number> {
  const [, kibibytes = "0"] = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${gateway.child.pid}/status`, "utf8")) ?? [];
  return Number(kibibytes) / 1024;
}

const refusals = (reason: string): Promise<number> =>
  gateway.metric(`ramet_gateway_refusals_total{reason="${reason}"}`);

describe("clients of HTTP/2", () => {
  it("are closed when they send no request, or headers that never end", async () => {
    gateway = await world.startGateway();
    const [part, silent, slow] = await Promise.all([gateway.connect(), raw(), raw()]);
    part.socket.write(preface.slice(0, 10));
    const block = literals(requestTo("http1"));
    slow.socket.write(frame("headers", { stream: 1, flags: flags.endStream, payload: block }));
    const dripping = setInterval(() => slow.socket.write(frame("ping", { payload: Buffer.alloc(8) })), 500);
    await Promise.all([part.closed, silent.closed, slow.closed]);
    clearInterval(dripping);
    expect(await refusals("timeout")).toBeGreaterThanOrEqual(2);
  });

  it("cannot occupy the gateway or a sandbox by requests that they reset", async () => {
    gateway = await world.startGateway();
    const before = started;
    const attack = async (): Promise<void> => {
      const connection = await raw("127.0.0.2");
      const payload = literals([...requestTo("a"), ["content-type", "application/grpc"]]);
      const pairs = Array.from({ length: 5_000 }, (_, at) => [
        frame("headers", { stream: 2 * at + 1, flags: flags.endHeaders | flags.endStream, payload }),
        frame("reset", { stream: 2 * at + 1, payload: uint32(8) }),
      ]);
      connection.socket.write(Buffer.concat(pairs.flat()));
      await connection.closed;
    };
    const attacks = Promise.all(Array.from({ length: 4 }, attack));
    const since = performance.now();
    expect(await gateway.exchange(head("http1", port, ["Connection: close"]), "127.0.0.3")).toMatch(/^HTTP\/1.1 200 /);
    // It waits while the gateway reads what was sent, about two seconds on an idle machine.
    expect(performance.now() - since).toBeLessThan(20_000);
    await attacks;
    expect(started - before).toBeLessThan(4 * 1_000);
    await expect.poll(() => held).toBe(0);
    await expect.poll(() => gateway.metric("ramet_gateway_requests_under_way")).toBe(0);
  });

  it("cannot occupy a sandbox by requests that they reset one after the other", async () => {
    gateway = await world.startGateway();
    const session = open("127.0.0.2");
    const ended = new Promise((resolve) => session.once("close", resolve));
    const before = started;
    while (!session.destroyed && !session.closed) {
      const stream = session.request({ ...grpc, ":path": "/hold", ...to("a") }, { endStream: true });
      stream.on("error", () => undefined);
      await Promise.race([once(stream, "response").catch(() => undefined), ended]);
      stream.close(8);
      expect(started - before).toBeLessThan(1_000);
    }
    await ended;
    expect(await refusals("resets")).toBe(1);
  });

  const stuffing = literals([["x-filler", "x".repeat(1_000)]]);
  it.each<[string, () => Generator<Buffer>]>([
    [
      "CONTINUATION frames without end",
      function* () {
        yield frame("headers", { stream: 1, payload: literals(requestTo("http1")) });
        for (;;) yield frame("continuation", { stream: 1, payload: stuffing });
      },
    ],
    [
      "empty CONTINUATION frames",
      function* () {
        yield frame("headers", { stream: 1, payload: literals(requestTo("http1")) });
        for (;;) yield frame("continuation", { stream: 1 });
      },
    ],
    [
      "pings, and reads no answers",
      function* () {
        for (;;) yield frame("ping", { payload: Buffer.alloc(8) });
      },
    ],
    [
      "settings, and reads no acknowledgements",
      function* () {
        for (;;) yield frame("settings");
      },
    ],
    [
      "frames of a stream that does not exist",
      function* () {
        for (;;) yield frame("data", { stream: 1, payload: Buffer.alloc(1_000) });
      },
    ],
    [
      "a window that overflows",
      function* () {
        for (;;) yield frame("windowUpdate", { payload: uint32(0x7fffffff) });
      },
    ],
    [
      "headers of 1 MiB",
      function* () {
        for (let stream = 1; ; stream += 2) {
          yield frame("headers", { stream, payload: literals(requestTo("http1")) });
          for (let part = 0; part < 70; part++)
            yield frame("continuation", { stream, payload: literals([["x-filler", "x".repeat(15_000)]]) });
        }
      },
    ],
    [
      "invalid header compression",
      function* () {
        for (let stream = 1; ; stream += 2)
          yield frame("headers", {
            stream,
            flags: flags.endHeaders,
            payload: Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
          });
      },
    ],
  ])("are closed when they send %s", async (_, frames) => {
    gateway = await world.startGateway();
    const before = await residentMebibytes();
    const connection = await raw("127.0.0.2");
    // The gateway's answers must not be read.
    connection.socket.removeAllListeners("data").pause();
    let sent = 0;
    for (const each of frames()) {
      if (sent > most) break;
      sent += each.length;
      if (connection.socket.write(each)) continue;
      const drained = once(connection.socket, "drain").then(
        () => true,
        () => false,
      );
      // A gateway that stops reading has stopped the flood, too.
      if (!(await Promise.race([drained, connection.closed.then(() => false), delay(3_000, false)]))) break;
    }
    expect(await residentMebibytes()).toBeLessThan(before + 100);
    expect(sent).toBeLessThan(most);
    connection.socket.destroy();
  });
  const most = 64 << 20;

  it("get an error for headers of more than 16 KiB, as with HTTP/1.1, and can continue", async () => {
    gateway = await world.startGateway();
    const session = open();
    const count = received.length;
    const large = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`x-${at}`, "x".repeat(1_000)]));
    // Node resets the stream when the client has acknowledged the settings.
    expect([undefined, "431"]).toContain(await statusOf(session, { ":path": "/", ...to("http1"), ...large }));
    expect(received.length).toBe(count);
    expect(await statusOf(session, { ":path": "/", ...to("http1") })).toBe("200");
    session.destroy();
  });

  it.each<[string, [string, string][]]>([
    ["transfer-encoding", [["transfer-encoding", "chunked"]]],
    ["connection", [["connection", "close"]]],
    ["a line feed in a value", [["x-a", "b\r\nGET /stolen HTTP/1.1\r\n"]]],
    ["a NUL in a value", [["x-a", "b\0c"]]],
    ["an upper-case name", [["X-A", "b"]]],
    ["a name with a colon", [["x:a", "b"]]],
    ["a second path", [[":path", "/other"]]],
    [
      "two lengths",
      [
        ["content-length", "1"],
        ["content-length", "2"],
      ],
    ],
    ["a length without a body", [["content-length", "5"]]],
  ])("cannot send %s to a program that speaks HTTP/1.1", async (_, more) => {
    gateway = await world.startGateway();
    const count = received.length;
    const connection = await raw();
    const payload = literals(requestTo("http1", more));
    connection.socket.write(frame("headers", { stream: 1, flags: flags.endHeaders | flags.endStream, payload }));
    await expect.poll(() => hasAnswer(connection)).toBe(true);
    // The gateway drops an invalid header, or resets the stream.
    const names = more.map(([name]) => `${name.toLowerCase()}:`);
    for (const request of received.slice(count)) {
      expect(request).not.toContain("stolen");
      expect(request.split("\r\n").filter((line) => names.some((name) => line.toLowerCase().startsWith(name)))).toEqual(
        [],
      );
    }
    connection.socket.destroy();
  });

  it.each([
    ["a space", "/a b"],
    ["a line feed", "/a\r\nX-B: c"],
    ["no slash", "http://other/"],
  ])("cannot send a path with %s to a program that speaks HTTP/1.1", async (_, path) => {
    gateway = await world.startGateway();
    const count = received.length;
    const connection = await raw();
    const payload = literals(
      requestTo("http1").map(([name, value]) => [name, name === ":path" ? path : value] as const),
    );
    connection.socket.write(frame("headers", { stream: 1, flags: flags.endHeaders | flags.endStream, payload }));
    await expect.poll(() => hasAnswer(connection)).toBe(true);
    expect(received.slice(count).filter((request) => !request.startsWith("GET http://other/ HTTP/1.1\r\n"))).toEqual(
      [],
    );
    connection.socket.destroy();
  });

  it("have limits for requests in progress on a connection, and for each client, sandbox and namespace", async () => {
    gateway = await world.startGateway([
      "--max-connections-per-client=5",
      "--max-connections-per-sandbox=3",
      "--max-connections-per-namespace=4",
    ]);
    const [one, two] = [open("127.0.0.2"), open("127.0.0.3")];
    const first = await hold(one);
    await hold(one);
    await hold(two);
    expect(await statusOf(one, { ...grpc, ":path": "/", ...to("a") })).toBe("14");
    expect(await statusOf(one, { ":path": "/", ...to("a") })).toBe("503");
    await hold(two, "b");
    expect(await statusOf(two, { ...grpc, ":path": "/", ...to("b") })).toBe("14");
    const other = to("c", port, otherNamespace);
    for (let count = 0; count < 3; count++) await hold(one, "c", other);
    expect(await statusOf(one, { ...grpc, ":path": "/", ...other })).toBe("14");
    for (const reason of ["sandbox", "namespace", "client"]) expect(await refusals(reason)).toBeGreaterThan(0);
    first.close(8);
    await expect.poll(() => statusOf(two, { ...grpc, ":path": "/", ...to("a") })).toBe("200");
    for (const session of [one, two]) session.destroy();
  });

  it("get 503 from all requests in progress before the gateway reaches its limit", async () => {
    gateway = await world.startGateway(["--max-connections", "20"]);
    const session = open();
    for (let count = 0; count < 18; count++) await hold(session);
    expect(await statusOf(session, { ...grpc, ":path": "/", ...to("a") })).toBe("14");
    expect(await refusals("overload")).toBe(1);
    session.destroy();
    await expect.poll(() => held).toBe(0);
  });

  it("can have only 100 requests in progress on a connection", async () => {
    gateway = await world.startGateway();
    const connection = await raw();
    const payload = literals(
      [...requestTo("a"), ["content-type", "application/grpc"]].map(
        ([name = "", value = ""]) => [name, name === ":path" ? "/hold" : value] as const,
      ),
    );
    connection.socket.write(
      Buffer.concat(
        Array.from({ length: 150 }, (_, at) =>
          frame("headers", { stream: 2 * at + 1, flags: flags.endHeaders | flags.endStream, payload }),
        ),
      ),
    );
    await expect.poll(() => held).toBe(100);
    connection.socket.destroy();
    await expect.poll(() => held).toBe(0);
  });
});

const firstProgram = 10_000;
const settings = frame("settings");
/** Sends frames once the request has arrived, because a client accepts none for a stream that it has not opened. */
const answered =
  (...frames: Buffer[]) =>
  (stream: Duplex): void => {
    let bytes = Buffer.alloc(0);
    stream.write(settings);
    stream.on("data", function answer(chunk: Buffer) {
      bytes = Buffer.concat([bytes, chunk]);
      if (!framesIn(bytes.subarray(preface.length)).some(({ type }) => type === frameTypes.headers)) return;
      stream.off("data", answer).resume().write(Buffer.concat(frames));
    });
  };
const block = (...headers: [string, string][]): Buffer => literals(headers);
const whole = flags.endHeaders | flags.endStream;

/** Programs that a sandbox can run at a port where a client expects gRPC. */
const programs: [name: string, (stream: Duplex) => void][] = [
  ["closes the connection", (stream) => stream.end()],
  ["sends nothing", () => undefined],
  ["speaks HTTP/1.1", (stream) => stream.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")],
  ["sends noise", (stream) => stream.write(Buffer.alloc(100_000, 0xff))],
  ["sends a frame of 16 MiB", (stream) => stream.write(Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]))],
  ["leaves", answered(frame("goaway", { payload: Buffer.concat([uint32(0), uint32(0)]) }))],
  ["resets", answered(frame("reset", { stream: 1, payload: uint32(0xffffffff) }))],
  ["has no status", answered(frame("headers", { stream: 1, flags: whole, payload: block(["x", "y"]) }))],
  ["has the status 101", answered(frame("headers", { stream: 1, flags: whole, payload: block([":status", "101"]) }))],
  ["has the status 999", answered(frame("headers", { stream: 1, flags: whole, payload: block([":status", "999"]) }))],
  [
    "has an invalid header",
    answered(frame("headers", { stream: 1, flags: whole, payload: block([":status", "200"], ["A b", "c\n"]) })),
  ],
  [
    "has headers of 1 MiB",
    answered(
      frame("headers", { stream: 1, payload: block([":status", "200"]) }),
      ...Array.from({ length: 70 }, () =>
        frame("continuation", { stream: 1, payload: block(["x", "x".repeat(15_000)]) }),
      ),
    ),
  ],
  [
    "pushes",
    answered(
      frame("pushPromise", {
        stream: 1,
        flags: flags.endHeaders,
        payload: Buffer.concat([
          uint32(2),
          block([":method", "GET"], [":path", "/"], [":scheme", "http"], [":authority", "x"]),
        ]),
      }),
    ),
  ],
  ["allows no stream", (stream) => stream.write(frame("settings", { payload: Buffer.from([0, 3, 0, 0, 0, 0]) }))],
  [
    "floods with settings",
    (stream) => {
      flood(stream, settings);
    },
  ],
  [
    "floods with pings",
    (stream) => {
      stream.write(settings);
      flood(stream, frame("ping", { payload: Buffer.alloc(8) }));
    },
  ],
  ["sends data before headers", answered(frame("data", { stream: 1, payload: Buffer.alloc(1_000) }))],
  [
    "breaks off",
    (stream) => {
      answered(
        frame("headers", { stream: 1, flags: flags.endHeaders, payload: block([":status", "200"]) }),
        frame("data", { stream: 1, payload: Buffer.from("part") }),
      )(stream);
      setTimeout(() => stream.destroy(), 1_000);
    },
  ],
  [
    "has invalid trailers",
    answered(
      frame("headers", { stream: 1, flags: flags.endHeaders, payload: block([":status", "200"]) }),
      frame("headers", { stream: 1, flags: whole, payload: block([":status", "200"], ["A", "b"]) }),
    ),
  ],
];

function flood(stream: Duplex, each: Buffer): void {
  const many = Buffer.concat(Array.from({ length: 1_000 }, () => each));
  const more = (): void => {
    while (!stream.destroyed && stream.write(many));
  };
  stream.on("drain", more);
  more();
}

describe("a program in a sandbox", () => {
  it.each(programs.map(([name], at) => [name, firstProgram + at] as const))(
    "that %s gives its client an error, and harms nobody else",
    async (_, number) => {
      gateway = await world.startGateway();
      const before = await residentMebibytes();
      const [session, other] = [open(), open("127.0.0.2")];
      const call = session.request({ ...grpc, ":path": "/", ...to("bad", number) }, { endStream: true });
      const ended = responseOf(call);
      expect(await statusOf(other, { ...grpc, ":path": "/", ...to("a") })).toBe("200");
      const waited = await Promise.race([ended, delay(20_000, "waits")]);
      // A gRPC error, a reset, or an HTTP status without the trailers of a call.
      expect(["13", "14", "200", undefined, ...(silent.includes(number) ? ["waits"] : [])]).toContain(waited);
      expect(await residentMebibytes()).toBeLessThan(before + 100);
      expect(await statusOf(session, { ":path": "/", ...to("http1") })).toBe("200");
      for (const each of [session, other]) each.destroy();
    },
  );
  /** Programs that never answer, which is theirs to decide. */
  const silent = ["allows no stream", "pushes"].map(
    (silentName) => firstProgram + programs.findIndex(([name]) => name === silentName),
  );

  it("that breaks off does not look complete", async () => {
    gateway = await world.startGateway();
    const session = open();
    const number = firstProgram + programs.findIndex(([name]) => name === "breaks off");
    const stream = session.request({ ...grpc, ":path": "/", ...to("bad", number) }, { endStream: true });
    await expect(text(stream)).rejects.toThrow(/NGHTTP2/);
    session.destroy();
  });
});
