import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { publish } from "../../../test/contract/store/harness.ts";
import { directoryStore } from "../../store/directory/store.ts";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { runProgram } from "../program.ts";

let directory: string;
let root: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-"));
  root = join(directory, "ramet", "default", "store");
  await mkdir(root, { recursive: true });
  const store = directoryStore({ root });
  const files = { "pages.img": "x".repeat(2048), "checkpoint.img": "state" };
  for (const checkpointId of ["one", "two"]) await publish({ store }, { namespace: "a", checkpointId }, files);
  await publish({ store }, { namespace: "b", checkpointId: "three" }, { "pages.img": "other" });
  await store.bind("cluster-uid");
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function run(...args: string[]) {
  const io = memoryIo({ environment: { XDG_DATA_HOME: directory }, progressIsSeen: true });
  const exitCode = await runProgram(io, ["store", ...args]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

it("shows the content of the local cluster's store and counts shared content once", async () => {
  const { exitCode, stdout } = await run("usage");
  expect(exitCode).toBe(0);
  expect(stdout.split("\n").map((line) => line.split(/ +/))).toEqual([
    ["NAMESPACE", "CHECKPOINTS", "CONTENTS", "SIZE", "SHARED", "STAGING"],
    ["a", "2", "2", "2KiB", "2KiB", "0B"],
    ["b", "1", "1", "5B", "0B", "0B"],
    [""],
  ]);
});

it("shows the usage of any directory in JSON, with the cluster that owns it", async () => {
  const { stdout } = await run("usage", "--path", root, "-n", "b", "-o", "json");
  expect(JSON.parse(stdout)).toEqual({
    path: root,
    cluster: "cluster-uid",
    namespaces: [{ namespace: "b", checkpoints: 1, contents: 1, contentBytes: 5, sharedBytes: 0, stagingBytes: 0 }],
  });
});

it("finds no damage in an intact store and prints its progress", async () => {
  const { exitCode, stdout, stderr } = await run("scrub");
  expect([exitCode, stdout]).toEqual([0, ""]);
  expect(stderr).toMatch(/0 % of 2KiB read[^]*3 checkpoints, 2KiB read: nothing is damaged/);
});

it("lists the damaged content of each checkpoint with what to do, and fails", async () => {
  const damaged = join(root, "a", "checkpoints", "one", "image", "pages.img");
  await chmod(damaged, 0o600);
  await writeFile(damaged, "y".repeat(2048));
  const { exitCode, stdout, stderr } = await run("scrub");
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/a +one +pages\.img +its digest is/);
  expect(stdout).toMatch(/a +two +pages\.img +its digest is/);
  expect(stderr).toContain("2 damaged");
  expect(stderr).toContain("ramet checkpoint rm <checkpoint>");
  const asJson = await run("scrub", "-o", "json");
  expect(asJson.exitCode).toBe(1);
  expect(JSON.parse(asJson.stdout)).toMatchObject({ checkpoints: 3, damaged: [{ file: "pages.img" }, {}] });
  expect((await run("scrub", "-n", "b")).exitCode).toBe(0);
});

it.each([
  [["usage", "--path", "/nowhere/store"], "Cannot find a store at /nowhere/store", "Correct --path"],
  [["scrub", "-n", "c"], "has no data of the namespace c", "Choose one of: a, b"],
  [["usage", "--name", "other"], "Cannot find a store at", "ramet local up"],
])("reports that %j is not found", async (args, message, hint) => {
  const { exitCode, stderr } = await run(...args);
  expect(exitCode).toBe(3);
  expect(stderr).toContain(message);
  expect(stderr).toContain(hint);
});
