import { once } from "node:events";
import { appendFile, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { type IncomingMessage, type Server, type ServerResponse, createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sendLog } from "./reports.ts";

let directory: string;
let path: string;
let server: Server;
let response: ServerResponse;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-log-"));
  path = join(directory, "0.log");
  server = createServer((request, answer) => {
    response = answer;
    void sendLog(path, new URL(request.url ?? "", "http://cell").searchParams, answer);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await rm(directory, { recursive: true, force: true });
});

it("sends the last lines and follows new ones", async () => {
  await writeFile(path, line("one") + line("two"));
  const log = await logs("?follow=true&tailLines=1");
  let text = "";
  log.on("data", (chunk: Buffer) => (text += chunk.toString()));
  await expect.poll(() => text).toBe("two\n");
  await appendFile(path, line("three"));
  await expect.poll(() => text).toBe("two\nthree\n");
});

it("reads no further for a client that does not read", async () => {
  await writeFile(path, line("one"));
  const log = await logs("?follow=true");
  const part = line("x".repeat(60_000)).repeat(16);
  for (let at = 0; at < 40; at += 1) await appendFile(path, part);
  // The bytes that the kernel does not take are in the response's buffer: at most what one read found.
  await expect.poll(() => response.writableNeedDrain).toBe(true);
  const held = response.writableLength;
  for (let at = 0; at < 40; at += 1) await appendFile(path, part);
  // Enough turns of the event loop to read all of it.
  for (let at = 0; at < 3_000; at += 1) await stat(path);
  expect(response.writableLength).toBe(held);
  let received = 0;
  log.on("data", (chunk: Buffer) => (received += chunk.length));
  await expect.poll(() => received).toBe("one\n".length + 80 * 16 * 60_001);
});

function line(text: string): string {
  return `2026-01-02T03:04:05.678Z stdout F ${text}\n`;
}

async function logs(query: string): Promise<IncomingMessage> {
  const request = get({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", path: `/${query}` });
  const [log] = (await once(request, "response")) as [IncomingMessage];
  log.on("error", () => undefined);
  return log;
}
