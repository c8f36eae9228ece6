import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { planV1 } from "./plan-versions.ts";
import { sweepCgroups, writeCgroupRecord } from "./record.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Plain directories stand in for groups: they show what is removed, not how the kernel behaves. */
it("removes the groups that a cell has recorded, and no group of another cell", async () => {
  const [memory, pids] = [join(directory, "memory"), join(directory, "pids")];
  await writeCgroupRecord(
    directory,
    planV1({ own: { memory, pids }, bounds: {} }, { uid: "a", limits: { memoryBytes: 1, processes: 1 } }),
  );
  for (const directory of [`${memory}/ramet/a/sandbox`, `${memory}/ramet/a/cut`, `${memory}/ramet/b/sandbox`])
    await mkdir(directory, { recursive: true });
  await mkdir(`${pids}/ramet/a/sandbox`, { recursive: true });
  await sweepCgroups(directory);
  expect(existsSync(`${memory}/ramet/a`)).toBe(false);
  expect(existsSync(`${memory}/ramet/b/sandbox`)).toBe(true);
  expect(existsSync(`${pids}/ramet`)).toBe(false);
  await sweepCgroups(directory);
});
