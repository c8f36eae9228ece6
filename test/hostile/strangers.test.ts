import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { cellPort } from "../../src/api/cell/cell-api.ts";
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

function open(): Socket {
  const socket = connect(cellPort, cell.address.ip).on("error", () => undefined);
  socket.resume();
  onTestFinished(() => {
    socket.destroy();
  });
  return socket;
}
