import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { EntrypointLog } from "./entrypoint-log.ts";

const mebibyte = 1024 * 1024;

let directory: string;
let clock: ManualClock;
let log: EntrypointLog;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-log-"));
  clock = new ManualClock();
  log = await EntrypointLog.open(directory, clock);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it("logs lines in full, wherever the pipe splits them", async () => {
  const source = new PassThrough();
  const followed = log.follow(source, "stdout", "early\nfir");
  const text = Buffer.from("st\nä line with ümlauts\nlast");
  for (const byte of text) source.write(Buffer.from([byte]));
  source.end();
  await followed;
  expect(await lines()).toEqual(["early", "first", "ä line with ümlauts", "last"]);
});

it("cuts a line without an end, and logs the line after it", async () => {
  const source = new PassThrough();
  const followed = log.follow(source, "stdout");
  for (let at = 0; at < 64; at += 1) source.write(Buffer.alloc(65_536, "A"));
  source.end("\nnext\n");
  await followed;
  const [cut, next] = await lines();
  expect(cut).toBe(`${"A".repeat(65_536)} [cut after 65536 bytes]`);
  expect(next).toBe("next");
});

it("stops reading from a program that prints faster than it may log", async () => {
  const source = new PassThrough({ highWaterMark: 65_536 });
  const followed = log.follow(source, "stdout");
  const line = "y\n".repeat(8_192);
  let accepted = 0;
  const print = async (): Promise<void> => {
    for (let at = 0; at < 500 && !source.writableNeedDrain; at += 1) {
      source.write(line);
      accepted += line.length / 2;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await print();
  // Each line is logged with 41 bytes. The output beyond the burst waits in the stream's own buffer.
  expect(accepted * 41).toBeLessThan(16 * mebibyte);
  const before = accepted;
  clock.advance(2_000);
  await expect.poll(() => source.writableNeedDrain).toBe(false);
  await print();
  expect(accepted).toBeGreaterThan(before);
  source.end();
  await expect
    .poll(() => {
      clock.advance(1_000);
      return source.closed;
    })
    .toBe(true);
  await followed;
});

async function lines(): Promise<string[]> {
  await log.close();
  const text = await readFile(log.path, "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/^\S+ stdout F /, ""));
}
