import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createNetServer } from "node:net";
import { PassThrough } from "node:stream";
import { expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { cellPort } from "../../api/wire/cell-api.ts";
import type { Cell } from "../lifecycle/cell.ts";
import { cellServer } from "../server/server.ts";
import { tokenVerifier } from "../server/token-verifier.ts";
import { CellClient } from "./cell-client.ts";
import { cellProver } from "./cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem } from "./cell-token.ts";

/** A separate address, because the port is fixed. */
const ip = "127.3.2.1";

it("keeps the first bytes of a program that arrive together with the response", async () => {
  const server = createServer().on("upgrade", (_, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n220 mail\r\n");
  });
  server.listen(cellPort, ip);
  await once(server, "listening");
  const client = new CellClient(cellKeyFromPem(newCellKeyPem()));
  try {
    const stream = await client.dial({ ip, sandboxUid: "uid" }, 25);
    const [first] = (await once(stream, "data")) as [Buffer];
    expect(first.toString()).toBe("220 mail\r\n");
    stream.destroy();
  } finally {
    client.close();
    server.closeAllConnections();
    server.close();
  }
});

const part = "[".repeat(65_536);
const cell = { ip, sandboxUid: "uid" };

it.each([200, 500])("stops reading an answer with status %i that does not end", async (status) => {
  const client = await clientOf((_, response) => {
    response.writeHead(status);
    const send = (): void => {
      while (!response.destroyed && response.write(part));
    };
    response.on("drain", send);
    send();
  });
  await expect(client.state(cell)).rejects.toMatchObject({ code: "Internal" });
});

const taken = {
  manifestDigest: `sha256:${"a".repeat(64)}`,
  sizeBytes: 1,
  cutAt: "2026-11-21T12:00:00Z",
  readyAt: "2026-11-21T12:00:01Z",
  pausedMilliseconds: 1,
  phases: { engine: 1 },
};
const running = { phase: "running", generation: 1, ready: true };

it.each<[string, object | string, "checkpoint" | "state"]>([
  ["a time that is none", { ...taken, readyAt: "never" }, "checkpoint"],
  ["a negative size", { ...taken, sizeBytes: -1 }, "checkpoint"],
  ["a digest of another form", { ...taken, manifestDigest: "../../x" }, "checkpoint"],
  ["an infinite pause", JSON.stringify(taken).replace('Milliseconds":1', 'Milliseconds":1e999'), "checkpoint"],
  [
    "many phases",
    { ...taken, phases: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [at, 1])) },
    "checkpoint",
  ],
  ["a long phase", { ...taken, phases: { ["x".repeat(65)]: 1 } }, "checkpoint"],
  ["a phase that does not exist", { ...running, phase: "restored" }, "state"],
  ["a million features", `{"engine":{"cpuFeatures":[${"1,".repeat(500_000)}1]}}`, "state"],
])("rejects an answer of a cell with %s", async (_, value, operation) => {
  const client = await clientOf((_, response) =>
    response.end(typeof value === "string" ? value : JSON.stringify(value)),
  );
  const answer = operation === "state" ? client.state(cell) : client.checkpoint(cell, {} as never);
  await expect(answer).rejects.toMatchObject({ code: "Internal" });
});

it("keeps an error of a cell short and printable", async () => {
  const text = `\0${"x".repeat(20_000)}`;
  const client = await clientOf((_, response) =>
    response.writeHead(409).end(JSON.stringify({ code: "Conflict", message: text, hint: text })),
  );
  const shown = /^\^@x{4000,4100}$/;
  await expect(client.state(cell)).rejects.toMatchObject({
    code: "Conflict",
    message: expect.stringMatching(shown) as string,
    hint: expect.stringMatching(shown) as string,
  });
});

it("times out if an answer does not end", async () => {
  const clock = new ManualClock(new Date());
  const client = await clientOf((_, response) => response.writeHead(200).write("{"), clock);
  // It has no time limit until the response starts.
  const restored = client.untilLoaded(cell);
  restored.catch(() => undefined);
  await expect.poll(() => clock.waits).toEqual([10_000]);
  clock.advance(10_000);
  await expect(restored).rejects.toMatchObject({ code: "Timeout", retryable: true });
});

it("stops a sandbox whose node was silent while a connection was kept", async () => {
  const kept = new Set<unknown>();
  const client = await clientOf(({ socket }, response) => {
    // Nothing arrives on a connection from before.
    if (!kept.has(socket)) response.end(JSON.stringify(running));
    kept.add(socket);
  });
  await client.state(cell);
  expect(await client.stop(cell, "the sandbox has lost this Pod")).toEqual(running);
  expect(kept.size).toBe(2);
});

it("reports a cell that responds with an upgrade as unreachable", async () => {
  const client = await clientOf((_, response) => {
    response.socket?.end("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
  });
  await expect(client.untilLoaded(cell)).rejects.toMatchObject({ code: "Unavailable" });
});

it("sends nothing to another process that has the address of a cell", async () => {
  const received: string[] = [];
  const hostile = createNetServer((socket) => {
    socket.on("data", (chunk: Buffer) => {
      received.push(chunk.toString());
      const { publicKey, prove } = other;
      const proof = prove(/^ramet-nonce: (\S+)/im.exec(chunk.toString())?.[1]);
      socket.write(`HTTP/1.1 204 No Content\r\nramet-cell-key: ${publicKey}\r\nramet-cell-proof: ${proof}\r\n\r\n`);
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    });
    socket.on("error", () => undefined);
  });
  const other = cellProver(cell.sandboxUid);
  hostile.listen(cellPort, ip);
  await once(hostile, "listening");
  const reported: string[] = [];
  const client = new CellClient(cellKeyFromPem(newCellKeyPem()), {
    onNotProven: ({ sandboxUid }) => reported.push(sandboxUid),
  });
  onTestFinished(() => {
    client.close();
    hostile.close();
  });
  const known = { ...cell, cellKey: cellProver(cell.sandboxUid).publicKey };
  const identity = { sandboxId: "a--b", hostname: "b", accessToken: "secret", environment: {} };
  await expect(client.dial(known, 8000)).rejects.toMatchObject({ code: "CellNotProven", retryable: true });
  await expect(client.boot(known, { identity })).rejects.toMatchObject({ code: "CellNotProven" });
  // Nor with the key of the cell, for which it has no signature.
  const imposed = cellProver("another");
  Object.assign(other, { publicKey: known.cellKey, prove: imposed.prove });
  await expect(client.boot(known, { identity })).rejects.toMatchObject({ code: "CellNotProven" });
  expect(reported).toEqual(["uid", "uid", "uid"]);
  expect(received).toHaveLength(3);
  for (const text of received)
    expect(text).toMatch(/^GET \/v1\/proof HTTP\/1.1\r\nHost: cell\r\nramet-nonce: \S+\r\n\r\n$/);
});

it("calls a cell that proves itself once for each connection, and learns its key", async () => {
  const key = cellKeyFromPem(newCellKeyPem());
  const prover = cellProver(cell.sandboxUid);
  // Stands in for the cell behind its real server.
  const state = { phase: "running", generation: 1, ready: true };
  const standIn = { state, boot: () => Promise.resolve(state), dial: () => Promise.resolve(new PassThrough()) };
  const verifier = tokenVerifier(key, cell.sandboxUid);
  const server = cellServer({ cell: standIn as unknown as Cell, verifier, prover, logPath: "/nonexistent" });
  const paths: (string | undefined)[] = [];
  server.on("request", ({ url }) => paths.push(url)).listen(cellPort, ip);
  await once(server, "listening");
  const client = new CellClient(key);
  onTestFinished(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  const cellKey = await client.cellKey(cell);
  expect(cellKey).toBe(prover.publicKey);
  const known = { ...cell, cellKey };
  expect(await client.state(known)).toEqual(state);
  expect(await client.state(known)).toEqual(state);
  expect(paths).toEqual(["/v1/proof", "/v1/state", "/v1/state"]);
  const stream = await client.dial(known, 8000);
  stream.write("echo");
  expect(((await once(stream, "data")) as [Buffer])[0].toString()).toBe("echo");
  stream.destroy();
  expect(paths.slice(3)).toEqual(["/v1/proof"]);
  // A connection on which a key was learned is used for this key only.
  await client.cellKey(cell);
  const { publicKey: otherKey } = cellProver(cell.sandboxUid);
  await expect(client.state({ ...cell, cellKey: otherKey })).rejects.toMatchObject({ code: "CellNotProven" });
  // A connection of this sandbox is not used for another one at the same address.
  await expect(client.state({ ...known, sandboxUid: "another" })).rejects.toMatchObject({ code: "CellNotProven" });
});

it("calls nothing that gives no proof", async () => {
  const client = await clientOf((_, response) => response.writeHead(404).end("{}"));
  await expect(client.cellKey(cell)).rejects.toMatchObject({ code: "CellNotProven" });
  await expect(client.state({ ...cell, cellKey: "a" })).rejects.toMatchObject({ code: "CellNotProven" });
});

it("gives up a process that accepts a connection and does not answer", async () => {
  const clock = new ManualClock(new Date());
  const client = await clientOf(() => undefined, clock);
  const called = client.boot({ ...cell, cellKey: "a" }, { identity: {} as never });
  called.catch(() => undefined);
  await expect.poll(() => clock.waits).toEqual([10_000]);
  clock.advance(10_000);
  await expect(called).rejects.toMatchObject({ code: "Unavailable", retryable: true });
});

/** Returns a client, and lets this listener stand in for the cell. */
async function clientOf(listener: RequestListener, clock?: ManualClock): Promise<CellClient> {
  const server: Server = createServer(listener);
  server.listen(cellPort, ip);
  await once(server, "listening");
  const client = new CellClient(cellKeyFromPem(newCellKeyPem()), clock && { clock });
  onTestFinished(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return client;
}
