import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { rehearse } from "./rehearse.ts";

it("gets as far as gVisor, and leaves no file", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-rehearse-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  expect(await rehearse(directory)).toEqual(["204 /v1/proof", "503 /v1/restore"]);
  expect(await readdir(directory)).toEqual([]);
});
