import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { cellPort } from "../../src/api/wire/cell-api.ts";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells } from "../setup/cells.ts";
import { cellPid, peakMebibytes } from "./processes.ts";

const mebibyte = 1024 ** 2;

let cells: Cells;
let cell: RunningCell;

beforeAll(async () => {
  cells = await Cells.open();
  cell = await cells.boot({ name: "target", container: { command: ["sleep", "infinity"] } });
});
afterAll(() => cells.close());

it("keeps the bodies of callers without a token out of the cell's memory", async () => {
  const body = Buffer.alloc(mebibyte - 1, "a");
  const callers = Array.from({ length: 500 }, () => {
    const socket = open();
    socket.write(`POST /v1/boot HTTP/1.1\r\nHost: x\r\nContent-Length: ${mebibyte}\r\n\r\n`);
    socket.write(body);
    return socket;
  });
  // The rest of each body never arrives.
  await expect.poll(() => callers.every(({ closed }) => closed), { timeout: 40_000 }).toBe(true);
  expect(await peakMebibytes(await cellPid(cell))).toBeLessThan(250);
  expect(await cells.client.state(cell.address)).toMatchObject({ phase: "running", ready: true });
});

it("closes connections that send no request, or half of one", async () => {
  const [silent, half] = [open(), open()];
  half.write("GET /v1/state HTTP/1.1\r\nHost:");
  await expect.poll(() => [silent.closed, half.closed], { timeout: 40_000 }).toEqual([true, true]);
});

it("survives callers that send no HTTP, huge headers, pipelined requests and upgrades", async () => {
  const keep = "GET /v1/state HTTP/1.1\r\nHost: x\r\n";
  const get = `${keep}Connection: close\r\n`;
  const dial = "GET /v1/ports/8000 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
  const attacks = [
    "\u0016\u0003\u0001\u0002\u0000\u0001",
    "GET / HTTP/9.9\r\n\r\n",
    `${get}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${get}X-A: ${"a".repeat(1 << 16)}\r\n\r\n`,
    `${get}Authorization: Bearer ${"a.".repeat(5_000)}\r\n\r\n`,
    `${keep}\r\n`.repeat(500) + `${get}\r\n`,
    dial,
    `${keep}\r\n${dial}`,
    dial + dial,
    `${dial}${"b".repeat(10_000)}`,
    "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
  ];
  const callers = attacks.map((attack) => {
    const [staying, leaving] = [open(), open()];
    staying.write(attack, "latin1");
    leaving.write(attack, "latin1", () => leaving.resetAndDestroy());
    return staying;
  });
  // Each gets an answer at most, and then the cell closes the connection.
  const stillOpen = () => attacks.filter((_, index) => callers[index]?.closed === false);
  await expect.poll(stillOpen, { timeout: 40_000 }).toEqual([]);
  expect(await cells.client.state(cell.address)).toMatchObject({ phase: "running", ready: true });
});

function open(): Socket {
  const socket = connect(cellPort, cell.address.ip).on("error", () => undefined);
  socket.resume();
  onTestFinished(() => {
    socket.destroy();
  });
  return socket;
}
