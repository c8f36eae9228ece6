import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { linkSidePrograms } from "./engine-bundles.ts";

async function temporary(parent = tmpdir()): Promise<string> {
  const made = await mkdtemp(join(parent, "side-programs-"));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

/** A stand-in for gVisor with one side program, and the program `sleep` in place of the gofer. */
async function programsIn(directory: string): Promise<{ runsc: string; gofer: string }> {
  await mkdir(join(directory, "gvisor-bin"));
  await Promise.all(
    ["gvisor-bin/other", "gvisor-bin/checkpointgofer", "runsc"].map((name) => writeFile(join(directory, name), name)),
  );
  const gofer = join(directory, "ramet-gofer");
  await copyFile("/bin/sleep", gofer);
  return { runsc: join(directory, "runsc"), gofer };
}

async function run(program: string): Promise<void> {
  const child = spawn(program, ["60"], { stdio: "ignore" });
  await once(child, "spawn");
  onTestFinished(async () => {
    child.kill();
    await once(child, "exit");
  });
}

it("keeps a directory whose gofer runs, and makes another one for another gofer at the same path", async () => {
  const [own, parent] = await Promise.all([temporary(), temporary()]);
  const { runsc, gofer } = await programsIn(own);
  const first = await linkSidePrograms(parent, runsc, gofer);
  expect((await readdir(first)).toSorted()).toEqual(["checkpointgofer", "other"]);
  await run(join(first, "checkpointgofer"));
  expect(await linkSidePrograms(parent, runsc, gofer)).toBe(first);
  await writeFile(`${gofer}.next`, "another program", { mode: 0o755 });
  await rename(`${gofer}.next`, gofer);
  const second = await linkSidePrograms(parent, runsc, gofer);
  expect(second).not.toBe(first);
  expect((await stat(join(second, "checkpointgofer"))).size).toBe("another program".length);
  expect((await stat(join(first, "checkpointgofer"))).size).toBe((await stat("/bin/sleep")).size);
});

it("copies the gofer from another file system, also while it runs", async ({ skip }) => {
  const [own, parent] = await Promise.all([temporary(), temporary("/dev/shm")]);
  if ((await stat(own)).dev === (await stat(parent)).dev) skip("the machine has one file system only");
  const { runsc, gofer } = await programsIn(own);
  await symlink(runsc, join(parent, "runsc"));
  const first = await linkSidePrograms(parent, join(parent, "runsc"), gofer);
  await run(join(first, "checkpointgofer"));
  expect(await linkSidePrograms(parent, join(parent, "runsc"), gofer)).toBe(first);
  expect((await readdir(first)).toSorted()).toEqual(["checkpointgofer", "other"]);
});
