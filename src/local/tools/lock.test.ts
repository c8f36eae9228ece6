import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { identifyProcess } from "../../base/process-identity.ts";
import { withLock } from "./lock.ts";

let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-lock-"));
  path = join(dir, "lock");
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Starts a program that acquires the lock and never releases it. Resolves when it holds the lock. */
async function otherHolder(): Promise<{ pid: number; end: () => Promise<void> }> {
  const program = `
    import { withLock } from ${JSON.stringify(join(import.meta.dirname, "lock.ts"))};
    import { systemClock } from ${JSON.stringify(join(import.meta.dirname, "../../base/clock.ts"))};
    await withLock(${JSON.stringify(path)}, { clock: systemClock }, async () => {
      console.log("held");
      await new Promise((resolve) => process.stdin.once("end", resolve).resume());
    });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return {
    pid: child.pid ?? 0,
    end: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

it("admits one caller at a time", async () => {
  let inside = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: 12 }, () =>
      withLock(path, { clock: systemClock }, async () => {
        inside += 1;
        most = Math.max(most, inside);
        await new Promise((resolve) => setImmediate(resolve));
        inside -= 1;
      }),
    ),
  );
  expect(most).toBe(1);
  expect(await readdir(dir)).toEqual([]);
});

it("waits for another process, reports its id, and takes over the lock when that process is killed", async () => {
  const other = await otherHolder();
  const waited: number[] = [];
  let startedWaiting = (): void => undefined;
  const waiting = new Promise<void>((resolve) => (startedWaiting = resolve));
  const got = withLock(
    path,
    {
      clock: systemClock,
      onWait: (pid) => {
        waited.push(pid);
        startedWaiting();
      },
    },
    () => Promise.resolve("mine"),
  );
  await waiting;
  await other.end();
  expect(await got).toBe("mine");
  expect(waited).toEqual([other.pid]);
  expect(await readdir(dir)).toEqual([]);
});

it("stops waiting when it is aborted, and keeps the other process's lock", async () => {
  const other = await otherHolder();
  const abort = new AbortController();
  const onWait = (): void => {
    abort.abort();
  };
  await expect(
    withLock(path, { clock: systemClock, signal: abort.signal, onWait }, () => Promise.resolve()),
  ).rejects.toMatchObject({ code: "Canceled" });
  expect(await readdir(dir)).toEqual(["lock"]);
  await other.end();
});

it("takes over the lock of an ended process whose id was reused", async () => {
  const self = identifyProcess(process.pid);
  await writeFile(path, JSON.stringify({ ...self, startedAt: "1", nonce: "00" }));
  expect(await withLock(path, { clock: systemClock }, () => Promise.resolve("mine"))).toBe("mine");
});

it("is released when the work fails", async () => {
  await expect(withLock(path, { clock: systemClock }, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await readdir(dir)).toEqual([]);
});
