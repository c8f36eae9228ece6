import { describe, expect, it } from "vitest";
import type { CheckpointPart } from "../../../src/api/kinds/checkpoint.ts";
import type { Backend, CaptureRequest, CheckpointName } from "../../../src/backends/backend.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";
import { RametError } from "../../../src/base/errors.ts";

/** Sandboxes for a backend to work on. */
export interface BackendHarness {
  backend: Backend;
  /** A sandbox that runs. */
  source: () => Promise<SandboxRef>;
  /** A sandbox that waits for its contents. */
  target: () => Promise<SandboxRef>;
  /** Does what a backend needs before the Pod of a clone starts: creates its claims. @default nothing */
  prepare?: (clone: { name: CheckpointName; parts: readonly CheckpointPart[]; target: SandboxRef }) => Promise<void>;
  /** A sandbox that cannot be captured yet: its Pod does not respond, or its claim is not bound. */
  unreachable: () => Promise<SandboxRef>;
  isRunning: (sandbox: SandboxRef) => Promise<boolean>;
  /** Whether a part can be restored in place; volumes cannot. @default true */
  restoresInPlace?: boolean;
  /** Sets the content of the sandbox, which its checkpoints contain. */
  write: (sandbox: SandboxRef, text: string) => Promise<void>;
  /** Returns the content that `write` set or that was restored. */
  read: (sandbox: SandboxRef) => Promise<string>;
  /** Keeps the next capture of the sandbox from completing until the returned function is called. */
  hold: (sandbox: SandboxRef) => { started: () => Promise<unknown>; release: () => void };
  /** Makes the next capture of the sandbox fail after it has started. */
  breakCapture: (sandbox: SandboxRef) => Promise<void>;
  /** Ends what makes captures fail, if it lasts longer than one capture. */
  mend?: () => Promise<void>;
}

/**
 * The contract of all backends. A test file calls this once for each backend, with an open harness.
 * @param prefix of the ids of its checkpoints. @default c
 */
export function testBackend(harness: () => BackendHarness, prefix = "c"): void {
  let number = 0;
  const newName = (): CheckpointName => ({ namespace: "contract", checkpointId: `${prefix}-${++number}` });

  async function request(source: SandboxRef, name = newName()): Promise<CaptureRequest> {
    const [contents] = (await harness().backend.probe()).contents;
    return { name, source, contents: contents!, keepRunning: true };
  }

  async function newSource(text: string): Promise<SandboxRef> {
    const { source, write } = harness();
    const sandbox = await source();
    await write(sandbox, text);
    return sandbox;
  }

  async function cloneOf({ name }: CaptureRequest): Promise<SandboxRef> {
    const { parts } = await harness().backend.whenReady(name);
    return cloneParts(name, parts);
  }

  async function cloneParts(name: CheckpointName, parts: readonly CheckpointPart[]): Promise<SandboxRef> {
    const { backend, target: newTarget, prepare } = harness();
    const target = await newTarget();
    await prepare?.({ name, parts, target });
    for (const part of parts) await backend.clone({ name, part, target, environment: {} });
    return target;
  }

  describe("a backend", () => {
    it("reports what it can capture here", async () => {
      const { contents, problem } = await harness().backend.probe();
      expect(problem).toBeUndefined();
      expect(contents).not.toEqual([]);
    });

    it("captures a sandbox that keeps running, and clones it", async () => {
      const { backend, isRunning, write, read } = harness();
      const from = await newSource("one");
      const capture = await request(from);
      const startedAt = Date.now();
      await backend.capture(capture);
      expect(await isRunning(from)).toBe(true);
      await write(from, "two");
      const { parts } = await backend.whenReady(capture.name);
      expect(parts).not.toEqual([]);
      for (const part of parts) {
        expect(part).toMatchObject({ backend: backend.name, contents: capture.contents });
        expect(part.sizeBytes).toBeGreaterThan(0);
        expect(new Date(part.cutAt).getTime()).toBeGreaterThanOrEqual(startedAt - 1);
      }
      for (const clone of [await cloneOf(capture), await cloneOf(capture)]) {
        expect(await isRunning(clone)).toBe(true);
        expect(await read(clone)).toBe("one");
      }
      expect([await isRunning(from), await read(from)]).toEqual([true, "two"]);
    });

    it("restores a sandbox in place, and returns the first result of a repeated request, or refuses it", async () => {
      const { backend, isRunning, write, read, restoresInPlace = true } = harness();
      const from = await newSource("one");
      const { name, ...rest } = await request(from);
      await backend.capture({ name, ...rest });
      await write(from, "two");
      const { parts } = await backend.whenReady(name);
      for (const part of parts) {
        const restore = { name, part, target: from, environment: {}, request: "r-1" };
        if (!restoresInPlace) {
          await expect(backend.restoreInPlace(restore)).rejects.toMatchObject({ code: "NotSupported" });
          continue;
        }
        const first = await backend.restoreInPlace(restore);
        expect((await backend.restoreInPlace(restore)).memory).toEqual(first.memory);
      }
      await backend.untilLoaded(from);
      expect([await isRunning(from), await read(from)]).toEqual([true, restoresInPlace ? "one" : "two"]);
    });

    it("returns the first capture when it is repeated", async () => {
      const { backend, write } = harness();
      const from = await newSource("one");
      const capture = await request(from);
      const first = await backend.capture(capture);
      await write(from, "two");
      const again = await backend.capture(capture);
      expect(again.parts.map(({ handle, cutAt }) => [handle, cutAt])).toEqual(
        first.parts.map(({ handle, cutAt }) => [handle, cutAt]),
      );
      expect(await harness().read(await cloneOf(capture))).toBe("one");
    });

    it("rejects a capture during another one of the same sandbox", async () => {
      const { backend, hold } = harness();
      const from = await newSource("one");
      const { started, release } = hold(from);
      const capture = await request(from);
      const first = backend.capture(capture);
      await started();
      await expect(backend.capture(await request(from))).rejects.toMatchObject({ code: "Conflict" });
      release();
      await first;
      expect(await harness().read(await cloneOf(capture))).toBe("one");
    });

    it("leaves the sandbox running and no checkpoint when a capture fails, and completes the repeated one", async () => {
      const { backend, breakCapture, mend, isRunning, write } = harness();
      const from = await newSource("one");
      const capture = await request(from);
      await breakCapture(from);
      await expect(backend.capture(capture)).rejects.toThrow();
      await mend?.();
      expect(await isRunning(from)).toBe(true);
      await expect(backend.whenReady(capture.name)).rejects.toMatchObject({ code: "CheckpointLost" });
      await write(from, "two");
      // What the failed attempt has left may still be in removal. Callers repeat then.
      const repeated = () => backend.capture(capture).catch((error: unknown) => RametError.from(error).describe());
      await expect.poll(repeated, { timeout: 60_000 }).toMatchObject({ parts: expect.any(Array) as unknown });
      expect(await harness().read(await cloneOf(capture))).toBe("two");
    });

    it("throws CheckpointLost for a checkpoint that was never captured, and for one that was removed", async () => {
      const { backend } = harness();
      await expect(backend.whenReady(newName())).rejects.toMatchObject({ code: "CheckpointLost" });
      const { name, ...rest } = await request(await newSource("one"));
      await backend.capture({ name, ...rest });
      const { parts } = await backend.whenReady(name);
      await backend.remove(name);
      await backend.remove(name);
      await expect(backend.whenReady(name)).rejects.toMatchObject({ code: "CheckpointLost" });
      await expect(cloneParts(name, parts)).rejects.toMatchObject({ code: "CheckpointLost" });
    });

    it("keeps clones when their checkpoint is removed", async () => {
      const { backend, isRunning, read } = harness();
      const capture = await request(await newSource("one"));
      await backend.capture(capture);
      const clone = await cloneOf(capture);
      await backend.remove(capture.name);
      expect([await isRunning(clone), await read(clone)]).toEqual([true, "one"]);
    });

    it("throws a retryable Unavailable or Conflict for a sandbox that cannot be captured yet", async () => {
      const { backend, unreachable } = harness();
      const capture = await request(await unreachable());
      const code: unknown = expect.stringMatching(/^(Unavailable|Conflict)$/);
      await expect(backend.capture(capture)).rejects.toMatchObject({ code, retryable: true });
      await expect(backend.whenReady(capture.name)).rejects.toMatchObject({ code: "CheckpointLost" });
    });
  });
}
