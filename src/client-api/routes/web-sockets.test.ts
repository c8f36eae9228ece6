import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Callers } from "../keys/callers.ts";
import { clientApiMetrics } from "../metrics.ts";
import { serveClientApi } from "../server.ts";
import { handleInOrder, type ServeSocket } from "./web-sockets.ts";

/** A client and the server's side of its connection. */
async function connected(): Promise<{ client: WebSocket; socket: WebSocket }> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [[socket]] = (await Promise.all([once(server, "connection"), once(client, "open")])) as [[WebSocket], unknown];
  onTestFinished(() => {
    client.terminate();
    server.close();
  });
  return { client, socket };
}

it.each([
  ["large", 1024 * 1024, 64],
  ["small", 4, 400_000],
])("reads no %s messages of a client while a program does not read its input", async (_, bytes, count) => {
  const { client, socket } = await connected();
  let readBytes = 0;
  socket.on("message", (data: Buffer) => (readBytes += data.length));
  const free = Promise.withResolvers<undefined>();
  const handled: string[] = [];
  handleInOrder(socket, async (text) => {
    await free.promise;
    handled.push(text);
  });
  const numberOf = (index: number): string => String(index).padStart(4, "0").slice(-4);
  for (let index = 0; index < count; index++) client.send(numberOf(index).padEnd(bytes, "."));
  await expect.poll(() => socket.isPaused).toBe(true);
  // As much as arrives in many turns of the event loop.
  for (let turn = 0; turn < 2_000; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(readBytes).toBeLessThan(1.5 * 1024 * 1024);
  expect(socket.readyState).toBe(WebSocket.OPEN);
  free.resolve(undefined);
  await expect.poll(() => handled.length).toBe(count);
  expect(handled.every((text, index) => text.startsWith(numberOf(index)))).toBe(true);
});

/** A server with one WebSocket, and clients of it. */
async function serving(serve: ServeSocket, limits = noLimits): Promise<string> {
  const callers = {
    authenticate: () => Promise.resolve({ namespace: "team-a", key: "team-a/agent", limits }),
    rates: { take: () => 0 },
    endWhenRevoked: () => () => undefined,
    require: () => Promise.resolve(),
  };
  const server = await serveClientApi({
    port: 0,
    address: "127.0.0.1",
    dialects: [
      {
        register: ({ webSockets }) => {
          webSockets.add({
            path: /^\/sockets\/(?<id>\w+)$/,
            callers: callers as unknown as Callers,
            needs: [],
            open: ({ params }) =>
              params["id"] === "one" ? Promise.resolve(serve) : Promise.reject(new RametError("NotFound", "missing")),
            refusal: () => ({ status: 404, type: "text/plain", body: "missing\n" }),
            failure: ({ message }) => ({ type: "error", message }),
          });
        },
      },
    ],
    metrics: clientApiMetrics(),
    clock: systemClock,
    log,
  });
  onTestFinished(() => server.close());
  return `ws://127.0.0.1:${server.port}/sockets`;
}

const ignore = (): void => undefined;
const log: Log = Object.assign(
  { debug: ignore, info: ignore, warn: ignore, error: ignore },
  { trace: ignore, fatal: ignore, child: (): Log => log, level: "info" },
);
const noLimits = { concurrentRequests: 10, requestsPerSecond: 10, bytesInFlight: Infinity };

function open(url: string): WebSocket {
  const client = new WebSocket(url);
  onTestFinished(() => {
    client.terminate();
  });
  return client;
}

it("sends no more to a client that does not read than the connection holds, and all of it later", async () => {
  const [count, text] = [1_500, "x".repeat(64 * 1024)];
  let sent = 0;
  const client = open(
    `${await serving(async (socket) => {
      for (; sent < count; sent++) await socket.send({ text });
    })}/one`,
  );
  await once(client, "open");
  client.pause();
  let before = -1;
  // It has stopped when many turns of the event loop send nothing.
  while (before < sent) {
    before = sent;
    for (let turn = 0; turn < 500; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(sent).toBeLessThan(count / 2);
  let received = 0;
  client.on("message", () => received++);
  client.resume();
  const [code] = (await once(client, "close")) as [number];
  expect([received, code]).toEqual([count, 1000]);
});

it("tells a client about a failure, and closes the connection with its code", async () => {
  const client = open(`${await serving(() => Promise.reject(new RametError("OutOfRange", "events were lost")))}/one`);
  const [[message], [code, reason]] = (await Promise.all([once(client, "message"), once(client, "close")])) as [
    [Buffer],
    [number, Buffer],
  ];
  expect(JSON.parse(message.toString())).toEqual({ type: "error", message: "events were lost" });
  expect([code, reason.toString()]).toEqual([1011, "OutOfRange"]);
});

it.each(["/other", "/one/two", "?%"])("refuses a WebSocket at another path: %s", async (path) => {
  const client = open(`${await serving(() => Promise.resolve())}${path}`);
  const [error] = (await once(client, "error")) as [Error];
  expect(error.message).toContain("404");
});

it("reports an error of a message, and handles the next one", async () => {
  const closed = Promise.withResolvers<undefined>();
  const client = open(
    `${await serving((socket) => {
      socket.onMessage((text) =>
        text === "bad" ? Promise.reject(new RametError("InvalidArgument", "bad")) : socket.send({ text }),
      );
      return closed.promise;
    })}/one`,
  );
  await once(client, "open");
  client.send("bad");
  client.send("good");
  const received: unknown[] = [];
  client.on("message", (data: Buffer) => received.push(JSON.parse(data.toString())));
  await expect.poll(() => received).toEqual([{ type: "error", message: "bad" }, { text: "good" }]);
  closed.resolve(undefined);
});

it.each([
  ["ends the connection of a client whose handled messages are needed and too large", false, "closed"],
  ["keeps the connection of a client whose handled messages are no longer needed", true, "open"],
])("%s", async (_, isReleased, expected) => {
  const [count, text] = [16, "x".repeat(64 * 1024)];
  let handled = 0;
  const serve: ServeSocket = (socket) =>
    new Promise(() => {
      socket.onMessage((message) => {
        const release = socket.keep(message.length);
        if (isReleased) release();
        return ++handled === count ? socket.send({ handled }) : Promise.resolve();
      });
    });
  const client = open(`${await serving(serve, { ...noLimits, bytesInFlight: 512 * 1024 })}/one`);
  await once(client, "open");
  const over = Promise.race([once(client, "close").then(() => "closed"), once(client, "message").then(() => "open")]);
  for (let sent = 0; sent < count; sent++) {
    client.send(text);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await over).toBe(expected);
});
