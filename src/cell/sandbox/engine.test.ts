import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Engine } from "./engine.ts";
import { SavedImages } from "./saved-image.ts";

let directory: string;
const started: ChildProcess[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-engine-"));
});

afterEach(async () => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
  await rm(directory, { recursive: true, force: true });
});

async function sleeper(): Promise<ChildProcess & { pid: number }> {
  const child = spawn("sleep", ["60"], { stdio: "ignore" });
  started.push(child);
  await once(child, "spawn");
  return child as ChildProcess & { pid: number };
}

/** Stands in for gVisor: it only records which process it has started. */
async function engineOf(pid: number): Promise<{ engine: Engine; pidFile: string }> {
  const runsc = join(directory, "runsc");
  await writeFile(
    runsc,
    `#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = --pid-file ] && printf ${pid} > "$2"; shift; done\n`,
    { mode: 0o755 },
  );
  const images = new SavedImages({
    gofer: undefined,
    directory: join(directory, "gofer"),
    root: { layer: directory, upper: directory },
  });
  const engine = new Engine({ runsc, directory, id: "a", layerBytes: 1, images, environment: {} });
  await engine.create({});
  return { engine, pidFile: join(directory, "bundles", "a", "sandbox.pid") };
}

it("neither counts nor stops another process that has got the PID of its sandbox", async () => {
  const own = await sleeper();
  const { engine, pidFile } = await engineOf(own.pid);
  expect(await engine.isRunning()).toBe(true);
  own.kill("SIGKILL");
  await once(own, "exit");
  // Stands in for a PID that the kernel has given to another process.
  const other = await sleeper();
  await writeFile(pidFile, `${other.pid}`);
  expect(await engine.isRunning()).toBe(false);
  engine.halt("SIGSTOP");
  const status = await readFile(`/proc/${other.pid}/stat`, "utf8");
  expect(status.slice(status.lastIndexOf(")") + 2)[0]).not.toBe("T");
});

it("stops and ends its own process", async () => {
  const own = await sleeper();
  const { engine } = await engineOf(own.pid);
  const exited = once(own, "exit");
  engine.halt("SIGKILL");
  expect(await exited).toEqual([null, "SIGKILL"]);
  expect(await engine.isRunning()).toBe(false);
  engine.halt("SIGKILL");
});
