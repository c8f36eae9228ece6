import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { HeldCommand } from "./held-command.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-held-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Like gVisor, the script opens its log first. */
function hold(script: string): Promise<HeldCommand> {
  const gate = join(directory, "gate");
  const args = ["-c", `echo started > ${directory}/started; exec 3>>"$0"; ${script}`, gate];
  return HeldCommand.start({ program: "/bin/sh", args, what: "the script", gate });
}

async function untilStarted(): Promise<void> {
  while (!existsSync(join(directory, "started"))) await sleep(5);
}

it("blocks until it is released, and then runs to its end", async () => {
  const held = await hold(`cat ${directory}/wanted > ${directory}/done; echo nearly >&3; echo printed; exit 3`);
  await untilStarted();
  await sleep(50);
  expect(held.isRunning).toBe(true);
  expect(existsSync(join(directory, "done"))).toBe(false);
  expect(await held.release(5_000)).toMatchObject({ code: 3, log: "nearly\n", stdout: "printed\n" });
  expect(held.isRunning).toBe(false);
});

it("does not block if it is released before it opens its log", async () => {
  const held = await hold(`echo yes > ${directory}/done`);
  expect(await held.release(5_000)).toMatchObject({ code: 0, log: "" });
  expect(await readFile(join(directory, "done"), "utf8")).toBe("yes\n");
});

it("is killed when it is dropped, and can be dropped again", async () => {
  const held = await hold(`echo yes > ${directory}/done`);
  await untilStarted();
  await held.drop();
  await held.drop();
  expect(held.isRunning).toBe(false);
  expect(existsSync(join(directory, "done"))).toBe(false);
});

it("uses the same pipe for one command after the other", async () => {
  for (const code of [0, 4]) {
    const held = await hold(`exit ${code}`);
    expect(await held.release(5_000)).toMatchObject({ code });
  }
});

it("fails to start if the pipe cannot be created", async () => {
  await rm(directory, { recursive: true });
  await expect(hold("true")).rejects.toMatchObject({ code: "EngineFailed" });
});

it("is killed when it exceeds its time limit", async () => {
  const held = await hold("sleep 60");
  await expect(held.release(100)).rejects.toMatchObject({ code: "Timeout" });
});
