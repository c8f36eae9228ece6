import { appendFileSync, closeSync, openSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { PodDirectory } from "./pod-directory.ts";

const mebibyte = 1024 * 1024;

it("bounds the log of a cell that keeps it open", async () => {
  const pods = await mkdtemp(join(tmpdir(), "ramet-pods-"));
  onTestFinished(() => rm(pods, { recursive: true, force: true }));
  const directory = new PodDirectory(pods, "uid");
  directory.make();
  const log = openSync(directory.cellLog, "a");
  onTestFinished(() => {
    closeSync(log);
  });
  for (let at = 0; at < 12; at += 1) {
    appendFileSync(log, "x".repeat(mebibyte));
    directory.rotateCellLog();
  }
  appendFileSync(log, "last");
  expect(statSync(directory.cellLog).size).toBeLessThanOrEqual(5 * mebibyte);
  expect(statSync(`${directory.cellLog}.1`).size).toBeLessThanOrEqual(5 * mebibyte);
  expect(readFileSync(directory.cellLog, "utf8")).toMatch(/last$/);
});
