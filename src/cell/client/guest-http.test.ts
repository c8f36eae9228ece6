import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { GuestClient } from "./guest-client.ts";
import { GuestControl } from "./guest-control.ts";

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

it.each([
  ["an upgrade", "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"],
  ["no HTTP", "\0\0\0\0"],
  ["a bad chunk", `${head(200)}zz\r\n`],
])("reports a guest that responds with %s as unreachable", async (_, text) => {
  answer = (socket) => socket.write(text);
  await expect(guest.list("/")).rejects.toMatchObject({ code: "GuestUnreachable" });
});

/** Sends `part` again and again as fast as it is read. */
function endless(first: string, part: string): (socket: Socket) => void {
  return (socket) => {
    socket.write(first);
    const send = (): void => {
      while (!socket.destroyed && socket.write(part));
    };
    socket.on("drain", send);
    send();
  };
}
