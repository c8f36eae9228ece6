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

/** As gVisor does: it opens its log before it does anything. */
function hold(script: string): Promise<HeldCommand> {
  const gate = join(directory, "gate");
  const args = ["-c", `echo begun > ${directory}/begun; exec 3>>"$0"; ${script}`, gate];
  return HeldCommand.start({ program: "/bin/sh", args, what: "the script", gate });
}

async function untilStarted(): Promise<void> {
  while (!existsSync(join(directory, "begun"))) await sleep(5);
}

it("does nothing before it is let go on, and all of it then", async () => {
  const held = await hold(`cat ${directory}/wanted > ${directory}/done; echo nearly >&3; echo said; exit 3`);
  await untilStarted();
  await sleep(50);
  expect(held.isThere).toBe(true);
  expect(existsSync(join(directory, "done"))).toBe(false);
  expect(await held.release(5_000)).toMatchObject({ code: 3, log: "nearly\n", stdout: "said\n" });
  expect(held.isThere).toBe(false);
});

it("waits for nobody when it is let go on before it has got as far as its log", async () => {
  const held = await hold(`echo yes > ${directory}/done`);
  expect(await held.release(5_000)).toMatchObject({ code: 0, log: "" });
  expect(await readFile(join(directory, "done"), "utf8")).toBe("yes\n");
});

it("is gone when it is dropped, as often as that is asked for", async () => {
  const held = await hold(`echo yes > ${directory}/done`);
  await untilStarted();
  await held.drop();
  await held.drop();
  expect(held.isThere).toBe(false);
  expect(existsSync(join(directory, "done"))).toBe(false);
});

it("waits at the same pipe again, one after the other", async () => {
  for (const code of [0, 4]) {
    const held = await hold(`exit ${code}`);
    expect(await held.release(5_000)).toMatchObject({ code });
  }
});

it("is not begun with where no pipe can be made for it to wait at", async () => {
  await rm(directory, { recursive: true });
  await expect(hold("true")).rejects.toMatchObject({ code: "EngineFailed" });
});

it("is ended when it takes too long", async () => {
  const held = await hold("sleep 60");
  await expect(held.release(100)).rejects.toMatchObject({ code: "Timeout" });
});
