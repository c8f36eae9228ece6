import { once } from "node:events";
import { createServer, request, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type AddressInfo, connect, createServer as createTcpServer, type Server as TcpServer } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { RametError, textOfError } from "../base/errors.ts";
import { destroyAtEnd, upgradeTo } from "./forward-upgrade.ts";

/** A gateway of one route, and a server that a test programs. */
let [gateway, server]: [Server, TcpServer] = [createServer(), createTcpServer()];
let clock: ManualClock;
let accepted: PromiseWithResolvers<Socket>;
let outcome: Promise<number | RametError>;
/** The bytes of the client that the gateway has received and not sent on. */
let early = (): number => 0;
const limits = { answerMilliseconds: 900_000, stallMilliseconds: 60_000 };

beforeEach(async () => {
  clock = new ManualClock();
  accepted = Promise.withResolvers<Socket>();
  server = createTcpServer((socket) => {
    accepted.resolve(socket.on("error", () => undefined));
  });
  gateway = createServer().on("upgrade", (asked, socket: Socket, head: Buffer) => {
    const response = new ServerResponse(asked);
    response.assignSocket(socket);
    socket.on("error", () => undefined);
    const origin = { address: "127.0.0.1", isProxied: false, forwardedFor: "127.0.0.1", scheme: "http" as const };
    const target = {
      connect: async () => {
        const connection = connect((server.address() as AddressInfo).port, "127.0.0.1");
        await once(connection, "connect");
        return connection;
      },
      failure: (error: unknown) => new RametError("Unavailable", textOfError(error)),
      limits: { ...limits, clock },
    };
    const upgrade = { request: asked, url: "/", socket, head, response, origin, endNotice: destroyAtEnd(socket) };
    early = () => socket.readableLength;
    outcome = upgradeTo(target, upgrade).catch((error: unknown) => {
      socket.destroy();
      return RametError.from(error);
    });
  });
  for (const each of [gateway, server]) await once(each.listen(0, "127.0.0.1"), "listening");
});
afterEach(async () => {
  gateway.close();
  server.close();
  (await accepted.promise).destroy();
});

function ask() {
  const { port } = gateway.address() as AddressInfo;
  const headers = { connection: "Upgrade", upgrade: "websocket" };
  return request({ port, host: "127.0.0.1", headers })
    .on("error", () => undefined)
    .end();
}

it("ends the connection of a client that takes nothing for the time limit, and not before", async () => {
  const asked = ask();
  const upstream = await accepted.promise;
  upstream.resume().write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  const [, client] = (await once(asked, "upgrade")) as [unknown, Socket];
  client.on("error", () => undefined);
  // Nothing waits for the client.
  clock.advance(10 * limits.stallMilliseconds);
  client.pause();
  const chunk = Buffer.alloc(1024 * 1024);
  const fill = (): void => {
    while (upstream.writable && upstream.write(chunk));
  };
  fill();
  upstream.on("drain", fill);
  let [before, taken] = [-1, 0];
  await expect
    .poll(
      () => {
        before = taken;
        taken = upstream.bytesWritten - upstream.writableLength;
        return taken === before && upstream.writableLength > 0;
      },
      { interval: 300, timeout: 20_000 },
    )
    .toBe(true);
  clock.advance(limits.stallMilliseconds);
  expect(clock.waits).toEqual([limits.stallMilliseconds]);
  clock.advance(limits.stallMilliseconds);
  await new Promise((resolve) => upstream.once("close", resolve));
  expect(await outcome).toBe(101);
});

it("fails when the server does not answer within the time limit", async () => {
  ask();
  await once((await accepted.promise).resume(), "resume");
  await expect.poll(() => clock.waits).toEqual([limits.answerMilliseconds]);
  clock.advance(limits.answerMilliseconds);
  expect(await outcome).toMatchObject({ code: "Unavailable" });
});

it.each([
  ["closes its connection", (socket: Socket) => socket.destroy()],
  ["ends its side", (socket: Socket) => socket.end()],
])("gives the server's connection up when a client %s before the answer", async (_how, leave) => {
  const asked = ask();
  const upstream = await accepted.promise;
  await once(upstream, "data");
  leave(asked.socket as Socket);
  await new Promise((resolve) => upstream.resume().once("close", resolve));
  expect(await outcome).toMatchObject({ code: "Unavailable" });
  expect(clock.waits).toEqual([]);
});

it("delivers what a client has sent before the answer, and all that follows", async () => {
  const asked = ask();
  const upstream = await accepted.promise;
  await once(upstream, "data");
  let text = "";
  upstream.on("data", (chunk) => (text += String(chunk)));
  asked.socket?.write("early");
  await expect.poll(() => early()).toBe(5);
  upstream.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  const [, client] = (await once(asked, "upgrade")) as [unknown, Socket];
  client.end(" and late");
  await once(upstream, "end");
  expect(text).toBe("early and late");
  upstream.destroy();
  expect(await outcome).toBe(101);
});
