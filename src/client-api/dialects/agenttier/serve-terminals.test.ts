import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { handleInOrder } from "./serve-terminals.ts";

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
