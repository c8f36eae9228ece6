import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ContainerMemory } from "./container-memory.ts";
import type { CgroupLayout } from "./layout.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Plain files stand in for a group's: they show what is read, not how the kernel counts. */
async function files(content: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(content)) await writeFile(join(directory, name), text);
}

const v1 = (): CgroupLayout => ({ version: 1, own: { memory: directory }, contained: [] });
const v2 = (): CgroupLayout => ({ version: 2, own: directory, mount: directory });

describe.each([
  [
    v1,
    { "memory.limit_in_bytes": "1000\n", "memory.kmem.usage_in_bytes": "7\n" },
    "cache 999\nrss 1\ntotal_rss 100\ntotal_shmem 20\n",
    "memory.oom_control",
  ],
  [v2, { "memory.max": "1000\n" }, "anon 100\nfile 999\nkernel 6\nshmem 20\nsock 1\n", "memory.events"],
] as const)("the memory of a container of %o", (layout, limits, stat, kills) => {
  it("reads the limit, and what cannot be reclaimed", async () => {
    await files({ ...limits, "memory.stat": stat });
    expect(ContainerMemory.of(layout())).toMatchObject({ limitBytes: 1000, usedBytes: 127, sandboxBytes: 20 });
  });

  it("reports the kills since it was opened", async () => {
    await files({ ...limits, [kills]: "oom_kill 2\n" });
    const memory = ContainerMemory.of(layout());
    expect(memory?.exceeded()).toBeUndefined();
    expect(memory?.hasKilledOne).toBe(false);
    await files({ [kills]: "oom_kill 3\n" });
    expect(memory?.exceeded()).toMatchObject({ code: "OutOfMemory" });
    expect(memory?.hasKilledOne).toBe(true);
  });
});

it.each([
  ["has no limit in version 1", v1, "memory.limit_in_bytes", "9223372036854771712\n"],
  ["has no limit in version 2", v2, "memory.max", "max\n"],
  ["has no such file", v2, "other", ""],
])("returns undefined for a group that %s", async (_, layout, name, text) => {
  await files({ [name]: text });
  expect(ContainerMemory.of(layout())).toBeUndefined();
});

it("returns undefined in version 2 for a group next to which the sandbox's groups are", async () => {
  await files({ "memory.max": "1000\n" });
  expect(ContainerMemory.of({ version: 2, own: directory, mount: "/sys/fs/cgroup" })).toBeUndefined();
});
