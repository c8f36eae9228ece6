import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { identifyProcess } from "../../base/process-identity.ts";
import { observe, unreportedMilliseconds } from "./observe.ts";
import { PodDirectory } from "./pod-directory.ts";
import { PodProcess } from "./pod-process.ts";

let pods: string;
beforeEach(() => {
  pods = mkdtempSync(join(tmpdir(), "ramet-observe-"));
});
afterEach(() => {
  rmSync(pods, { recursive: true, force: true });
});

/** A Pod whose outer process runs `script` and ends. */
async function ended(script: string, files: { state: object; log?: object }): Promise<PodProcess> {
  const directory = new PodDirectory(pods, "uid-a");
  directory.make();
  writeFileSync(directory.stateFile, JSON.stringify({ generation: 0, ready: false, ...files.state }));
  if (files.log !== undefined) writeFileSync(directory.cellLog, `${JSON.stringify(files.log)}\n`);
  const child = spawn("sh", ["-c", script]);
  const process = identifyProcess(child.pid ?? 0);
  if (process === undefined) throw new Error("the process ended before it could be identified");
  const pod = PodProcess.start({
    directory,
    clock: systemClock,
    onChange: () => undefined,
    launched: { child, process },
    identity: { uid: "uid-a", namespace: "t", name: "a", ip: "127.64.0.1" },
  });
  await pod.ended;
  return pod;
}

it("reports the cell's error when a spare cannot start with its setting", async () => {
  const log = { code: "InvalidArgument", message: "cell: RAMET_CELL is not legal", hint: "Use one release" };
  const pod = await ended("sleep 0.1; exit 70", { state: { phase: "preparing" }, log });
  expect(observe(pod)).toMatchObject({
    kind: "ended",
    exitCode: 70,
    reason: "InvalidArgument",
    message: "cell: RAMET_CELL is not legal. Use one release",
  });
});

it("reports SandboxLost and the phase when the cell is killed", async () => {
  const pod = await ended("sleep 0.1; kill -9 $$", { state: { phase: "running", ready: true, generation: 1 } });
  expect(observe(pod)).toMatchObject({
    kind: "ended",
    reason: "SandboxLost",
    message: "the sandbox was lost: its cell was killed (SIGKILL) while the sandbox was running",
  });
});

it("reports a restore in place only if it is long, fails, or is interrupted by the cell's end", () => {
  const state = { phase: "restoring", generation: 1, ready: false, swapping: "r" } as const;
  expect(unreportedMilliseconds({ state, exit: undefined, restoringInPlaceMilliseconds: 100 })).toBe(2_900);
  expect(unreportedMilliseconds({ state, exit: undefined, restoringInPlaceMilliseconds: 3_000 })).toBe(0);
  expect(
    unreportedMilliseconds({
      state: { ...state, phase: "failed" },
      exit: undefined,
      restoringInPlaceMilliseconds: 100,
    }),
  ).toBe(0);
  expect(unreportedMilliseconds({ state, exit: { at: new Date() }, restoringInPlaceMilliseconds: 100 })).toBe(0);
  expect(unreportedMilliseconds({ state, exit: undefined, restoringInPlaceMilliseconds: undefined })).toBe(0);
});
