import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { untilAborted } from "../../base/clock.ts";
import { GuestClient } from "./guest-client.ts";
import { GuestControl } from "./guest-control.ts";
import { envelope } from "./guest-wire.ts";

let server: Server;
let answer: (socket: Socket) => void;
let sockets: Socket[];
const clock = new ManualClock();

/** Stands in for a guest that a program in the sandbox has replaced. */
beforeEach(async () => {
  sockets = [];
  server = createServer((socket) => {
    sockets.push(socket.on("error", () => undefined));
    socket.once("data", () => {
      answer(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
});

const dial = async (): Promise<Socket> => {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
};
const guest = new GuestClient({ dial });
const control = new GuestControl(dial, clock);
const head = (status: number): string => `HTTP/1.1 ${status} x\r\nTransfer-Encoding: chunked\r\n\r\n`;

it.each([
  ["a list", 200, () => guest.list("/proc")],
  ["an error", 500, () => guest.list("/proc")],
  ["the error of a command", 500, () => guest.startProcess({ command: "true" }).next()],
  ["the error of a file", 404, () => guest.readFile("/etc/passwd")],
  ["its health", 200, () => control.health()],
])("stops reading %s that does not end, and closes the connection", async (_, status, call) => {
  answer = endless(head(status), `10000\r\n${"[".repeat(65_536)}\r\n`);
  await expect(call()).rejects.toMatchObject({
    code: "Internal",
    message: expect.stringContaining("larger than") as string,
  });
  await expect.poll(() => sockets.every(({ closed }) => closed)).toBe(true);
});

it("stops to connect to a silent guest when its caller cancels", async () => {
  const caller = new AbortController();
  const silent = new GuestControl(async (signal) => {
    await untilAborted(signal!);
    throw new Error("stopped");
  }, clock);
  const programs = silent.programs(caller.signal);
  caller.abort();
  await expect(programs).rejects.toMatchObject({ code: "Canceled" });
});

it("stops reading a message of a command that does not end", async () => {
  const message = Buffer.alloc(5);
  message.writeUInt32BE(0xffff_ffff, 1);
  answer = (socket) => socket.write(`${head(200)}5\r\n${message.toString("latin1")}\r\n`, "latin1");
  await expect(guest.connect({ pid: 1 }).next()).rejects.toMatchObject({ code: "Internal" });
  await expect.poll(() => sockets.every(({ closed }) => closed)).toBe(true);
});

it("times out if no response starts", async () => {
  answer = () => undefined;
  const health = control.health();
  health.catch(() => undefined);
  await expect.poll(() => clock.waits).toEqual([15_000]);
  clock.advance(15_000);
  await expect(health).rejects.toMatchObject({ code: "Timeout", retryable: true });
  await expect.poll(() => sockets.every(({ closed }) => closed)).toBe(true);
});

it("times out if a response does not end", async () => {
  answer = (socket) => socket.write(head(200));
  const health = control.health();
  health.catch(() => undefined);
  await expect.poll(() => clock.waits).toEqual([60_000]);
  clock.advance(60_000);
  await expect(health).rejects.toMatchObject({ code: "Timeout", retryable: true });
  await expect.poll(() => sockets.every(({ closed }) => closed)).toBe(true);
});

const runs = Buffer.from("\0\0\0\x02ab\x80\0\x20\0\0\0\0\x01c", "latin1");

it.each<[string, string, Buffer[], string]>([
  ["that counts zeros, in one piece", "Ramet-Zeros: counted\r\n", [runs], `ab${"\0".repeat(8192)}c`],
  [
    "that counts zeros, byte by byte",
    "Ramet-Zeros: counted\r\n",
    [...runs].map((byte) => Buffer.of(byte)),
    `ab${"\0".repeat(8192)}c`,
  ],
  ["of an earlier release, which sends zeros", "", [runs], runs.toString("latin1")],
])("writes the layer of a guest %s, up to its limit", async (_, header, pieces, expected) => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-changes-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  answer = (socket) => {
    socket.write(`HTTP/1.1 200 x\r\n${header}Trailer: Ramet-Layer\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (const piece of pieces)
      socket.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")]));
    socket.end(`0\r\nRamet-Layer: {"entries":1,"bytes":2,"skipped":0}\r\n\r\n`);
  };
  const limits = { withTmp: false, signal: new AbortController().signal };
  const written = (name: string, maxBytes: number) =>
    control.changes(Buffer.alloc(0), join(directory, name), { ...limits, maxBytes });
  expect(await written("whole", expected.length)).toMatchObject({ entries: 1 });
  expect(await readFile(join(directory, "whole"), "latin1")).toBe(expected);
  await expect(written("cut", expected.length - 1)).rejects.toMatchObject({ code: "QuotaExceeded" });
  await expect(written("missing/layer", expected.length)).rejects.toMatchObject({ code: "StoreUnavailable" });
});

it.each([
  ["empty runs", "\0\0\0\0"],
  ["runs of no zeros", "\x80\0\0\0"],
  ["runs of one byte", "\0\0\0\x01a"],
  ["runs of one zero", "\x80\0\0\x01"],
])("stops reading a layer of %s, and closes the connection", async (_, run) => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-changes-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const piece = run.repeat(1_000);
  answer = endless(
    "HTTP/1.1 200 x\r\nRamet-Zeros: counted\r\nTransfer-Encoding: chunked\r\n\r\n",
    Buffer.from(`${piece.length.toString(16)}\r\n${piece}\r\n`, "latin1"),
  );
  const limits = { withTmp: false, signal: new AbortController().signal, maxBytes: 2 ** 40 };
  await expect(control.changes(Buffer.alloc(0), join(directory, "layer"), limits)).rejects.toMatchObject({
    code: "Internal",
    message: expect.stringContaining("empty or too small") as string,
  });
  await expect.poll(() => sockets.every(({ closed }) => closed)).toBe(true);
});

it.each([
  ["an upgrade", "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"],
  ["no HTTP", "\0\0\0\0"],
  ["a bad chunk", `${head(200)}zz\r\n`],
])("reports a guest that responds with %s as unreachable", async (_, text) => {
  answer = (socket) => socket.write(text);
  await expect(guest.list("/")).rejects.toMatchObject({ code: "GuestUnreachable" });
});

const answered = (value: unknown, status = 200) => {
  const body = Buffer.isBuffer(value) ? value : Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
  return (socket: Socket): void => {
    socket.write(`HTTP/1.1 ${status} x\r\nContent-Length: ${body.length}\r\n\r\n`);
    socket.end(body);
  };
};
const healthy = { pid: 1, generation: 1, entrypoint: { state: "running" } };
const hook = { path: "/hook", milliseconds: 1, exitCode: 0 };
const identity = {
  sandboxId: "a--b",
  hostname: "b",
  accessToken: "t",
  environment: {},
  limits: {},
  generation: 2,
  clone: true,
  now: "2026-11-21T12:00:00Z",
  hookTimeoutMilliseconds: 1,
};
const many = (item: string, bytes: number) =>
  Array(Math.floor(bytes / (item.length + 1)))
    .fill(item)
    .join(",");

it.each<[string, unknown, () => Promise<unknown>]>([
  ["a generation that is negative", { ...healthy, generation: -1 }, () => control.health()],
  ["a generation that no number holds", JSON.stringify(healthy).replace(":1,", ":1e999,"), () => control.health()],
  ["a generation that is a text", { ...healthy, generation: "7" }, () => control.health()],
  ["a state that does not exist", { ...healthy, entrypoint: { state: "restored" } }, () => control.health()],
  ["no health at all", null, () => control.health()],
  ["hooks that are no list", { hooks: {} }, () => control.init(identity)],
  ["a hook without an exit code", { hooks: [{ ...hook, exitCode: undefined }] }, () => control.init(identity)],
  ["a hook with half an exit code", { hooks: [{ ...hook, exitCode: 0.5 }] }, () => control.init(identity)],
  ["a quiesced sandbox that is no object", "true", () => control.quiesce()],
  ["an exit of NaN", '{"exitCode":NaN}', () => control.health()],
  ["a million hooks", `{"hooks":[${many("1", 1e6)}]}`, () => control.init(identity)],
  ["a million warnings", `{"hooks":[],"warnings":[${many('""', 1e6)}]}`, () => control.init(identity)],
  ["millions of numbers as files", `{"entries":[${many("1", 16e6)}]}`, () => guest.list("/")],
  ["millions of empty files", `{"entries":[${many("{}", 16e6)}]}`, () => guest.list("/")],
  ["millions of lists as files", `{"entries":[${many("[]", 16e6)}]}`, () => guest.list("/")],
  ["a hundred thousand faulty files", `{"entries":[${many("1", 199_998)}]}`, () => guest.list("/")],
  [
    "millions of arguments",
    `{"processes":[{"pid":1,"config":{"args":[${many("1", 16e6)}]}}]}`,
    () => guest.listProcesses(),
  ],
  ["a size that is a list", { entries: [{ size: [1, 2] }] }, () => guest.list("/")],
  ["a size that is infinite", { entries: [{ size: "Infinity" }] }, () => guest.list("/")],
  [
    "a command with a name that is a number",
    { processes: [{ pid: 1, config: { cmd: 1 } }] },
    () => guest.listProcesses(),
  ],
])("rejects an answer with %s, and says so briefly", async (_, value, call) => {
  answer = answered(value);
  await expect(call()).rejects.toMatchObject({
    code: "Internal",
    message: expect.stringMatching(/^the guest's answer to [^]{1,400}$/) as string,
  });
});

it.each<[string, (text: string) => [unknown, number], (text: string) => Promise<string>]>([
  ["an error", (text) => [{ message: text }, 500], () => control.health().then(String, messageOf)],
  [
    "a hook's output",
    (text) => [{ hooks: [{ ...hook, output: text }] }, 200],
    async () => (await control.init(identity)).hooks[0]!.output,
  ],
  [
    "why the entrypoint failed",
    (text) => [{ ...healthy, entrypoint: { state: "failed", message: text } }, 200],
    async () => (await control.health()).entrypoint.message!,
  ],
])("keeps %s short and printable", async (_, valueOf, read) => {
  for (const text of ["x".repeat(60_000), "\0\x1b]0;title\x07", "\ud800"]) {
    const [value, status] = valueOf(text);
    answer = answered(value, status);
    const shown = await read(text);
    expect(shown.length).toBeLessThan(5_000);
    expect(shown).not.toMatch(/\p{Cc}|\p{Cs}/u);
  }
});

const messageOf = (error: unknown): string => (error as Error).message;

it.each([
  [1e15, 255],
  [256, 255],
  [-1e15, -1],
])("takes %d for no other exit code than %d", async (claimed, exitCode) => {
  answer = answered({ hooks: [{ ...hook, exitCode: claimed }] });
  expect((await control.init(identity)).hooks).toMatchObject([{ exitCode }]);
  answer = answered({ exitCode: claimed });
  expect(await control.untilExit(new Promise(() => undefined))).toEqual({ exitCode });
});

it("passes on no empty output, which whoever keeps output would keep without end", async () => {
  const event = (value: object) => envelope({ event: value });
  const last = envelope({});
  last[0] = 2;
  const sent = [
    ...Array.from({ length: 1_000 }, () => event({ data: { stdout: "" } })),
    event({ data: { stdout: "", stderr: Buffer.from("a").toString("base64"), pty: "" } }),
    event({ end: { exitCode: 1e15, exited: true } }),
    last,
  ];
  answer = answered(Buffer.concat(sent));
  const events = [];
  for await (const one of guest.connect({ pid: 1 })) events.push(one);
  expect(events).toMatchObject([
    { type: "data", stream: "stderr", data: Buffer.from("a") },
    { type: "end", exitCode: 255 },
  ]);
});

it("rejects a message of a command with very many values", async () => {
  const message = Buffer.alloc(5 + 200_000, "[1,1,1,1,1]");
  message.writeUInt8(2, 0);
  message.writeUInt32BE(message.length - 5, 1);
  answer = answered(message);
  await expect(guest.connect({ pid: 1 }).next()).rejects.toMatchObject({
    code: "Internal",
    message: expect.stringContaining("more than 20000 values") as string,
  });
});

/** Sends `part` again and again as fast as it is read. */
function endless(first: string, part: string | Buffer): (socket: Socket) => void {
  return (socket) => {
    socket.write(first);
    const send = (): void => {
      while (!socket.destroyed && socket.write(part));
    };
    socket.on("drain", send);
    send();
  };
}
