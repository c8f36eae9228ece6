import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { planV1 } from "./plan-v1.ts";
import { sweepCgroups, writeCgroupRecord } from "./record.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Plain folders stand in for groups: they show what is removed, and not how the kernel takes it. */
it("a sweep removes what a cell put down, and nothing of its neighbours", async () => {
  const [memory, pids] = [join(directory, "memory"), join(directory, "pids")];
  await writeCgroupRecord(directory, planV1({ memory, pids }, { uid: "a", limits: { memoryBytes: 1, processes: 1 } }));
  for (const directory of [`${memory}/ramet/a/sandbox`, `${memory}/ramet/a/cut`, `${memory}/ramet/b/sandbox`])
    await mkdir(directory, { recursive: true });
  await mkdir(`${pids}/ramet/a/sandbox`, { recursive: true });
  await sweepCgroups(directory);
  expect(existsSync(`${memory}/ramet/a`)).toBe(false);
  expect(existsSync(`${memory}/ramet/b/sandbox`)).toBe(true);
  expect(existsSync(`${pids}/ramet`)).toBe(false);
  await sweepCgroups(directory);
});
