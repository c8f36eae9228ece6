import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { directoryStore } from "../../../src/store/directory/store.ts";
import type { Order } from "./order.ts";
import { runChild, runInOwnMounts } from "./run-child.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-store-disk-"));
});
afterEach(() => rm(directory, { recursive: true }));

const small = { "pages.img": "small" };

function order(operation: Order["operation"], checkpointId: string, files: Record<string, string> = small): Order {
  return { operation, root: directory, checkpointId, files };
}

it("reports a full store, keeps its checkpoints, and accepts new ones once there is room", async () => {
  const big = { "pages.img": "x".repeat(20_000), "checkpoint.img": "y".repeat(20_000) };
  const script = `mount -t tmpfs -o size=128k store "$DIR"; {0}; head -c 80000 /dev/zero > "$DIR/ballast"; {1}; {2}; {3}; rm "$DIR/ballast"; {1}`;
  const lines = await runInOwnMounts(directory, script, [
    order("publish", "first"),
    order("publish", "second", big),
    order("probe", ""),
    order("publish", "first"),
  ]);
  const [first, second, probe, again, retried] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(second).toMatchObject({ error: { code: "StoreFull", hint: expect.stringContaining("Delete") as string } });
  expect(probe).toMatchObject({ error: { code: "StoreFull" } });
  expect(again?.["manifestDigest"]).toBe(first?.["manifestDigest"]);
  expect(retried).toMatchObject({ sizeBytes: 40_000 });
});

it("reports a store that becomes full during a publication, and publishes at a retry once there is room", async () => {
  const script = `mount -t tmpfs -o size=128k store "$DIR"; {0}; {1}; rm "$DIR/ballast"; {2}`;
  const lines = await runInOwnMounts(directory, script, [
    order("publish", "first"),
    { ...order("publish", "second", { "pages.img": "second" }), fillAt: "sealed" },
    order("publish", "second", { "pages.img": "second" }),
  ]);
  const [, second, retried] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(second).toMatchObject({ error: { code: "StoreFull", hint: expect.stringContaining("Delete") as string } });
  expect(retried).toMatchObject({ sizeBytes: 6 });
});

it("reports a read-only store", async () => {
  const script = `mount -t tmpfs store "$DIR"; {0}; mount -o remount,ro "$DIR"; {1}; {2}; {3}`;
  const lines = await runInOwnMounts(directory, script, [
    order("publish", "first"),
    order("publish", "second"),
    order("probe", ""),
    order("remove", "first"),
  ]);
  const readOnly = { error: { code: "StoreReadOnly", hint: expect.stringContaining("read-write") as string } };
  expect(lines.slice(1).map((line) => JSON.parse(line) as unknown)).toMatchObject([readOnly, readOnly, readOnly]);
});

it("restores in a cell with a read-only store, and keeps the restored files when the checkpoint is removed", async () => {
  const script = `{0} > /dev/null; mkdir "$DIR/view"; mount --bind "$DIR/team-a" "$DIR/view"; mount -o remount,bind,ro "$DIR/view"; {1}; ls -A "$DIR/view/staging" "$DIR/scratch"`;
  await mkdir(join(directory, "scratch"));
  const lines = await runInOwnMounts(directory, script, [
    order("publish", "first"),
    order("restore-read-only", "first"),
  ]);
  expect(JSON.parse(lines[0] ?? "")).toEqual({ removed: true, image: small });
  // The restore leaves no files in either directory.
  expect(lines.slice(1).filter((line) => line !== "" && !line.endsWith(":"))).toEqual([]);
});

it("reports a missing store, and creates nothing in its place", async () => {
  const root = join(directory, "unmounted");
  for (const operation of ["publish", "remove", "sweep", "probe"] as const) {
    expect(JSON.parse(await runChild({ ...order(operation, "first"), root }))).toMatchObject({
      error: { code: "StoreUnavailable", hint: expect.stringContaining("mount") as string },
    });
  }
  await mkdir(root);
  expect(JSON.parse(await runChild({ ...order("publish", "first"), root }))).toMatchObject({ sizeBytes: 5 });
});

it("reports too little room", async () => {
  const { problem } = await directoryStore({ root: directory, minimumFreeBytes: 2 ** 60 }).probe();
  expect(problem).toMatchObject({ code: "StoreFull" });
});
