import { expect, test } from "vitest";
import type { Identity } from "../../../src/api/cell/cell-api.ts";
import type { Backend, CheckpointHandle, SandboxTarget } from "../../../src/backends/backend.ts";

/** Sandboxes for a backend to work on. */
export interface BackendHarness {
  backend: Backend;
  /** A sandbox that runs. */
  source: () => Promise<SandboxTarget>;
  /** A sandbox that waits for its contents. */
  target: () => Promise<SandboxTarget>;
  /** Whether a sandbox goes on. */
  isRunning: (sandbox: SandboxTarget) => Promise<boolean>;
}

/** What every backend promises; a test file calls this once for each, after it has opened the harness. */
export function testBackend(harness: () => BackendHarness): void {
  let number = 0;
  const newHandle = (): CheckpointHandle => ({ namespace: "contract", checkpointId: `c-${++number}` });
  const identity = (name: string): Identity => ({
    sandboxId: `contract--${name}`,
    hostname: name,
    accessToken: `token-${name}`,
    environment: {},
  });

  test("says what it can do here", async () => {
    const { contents, problem } = await harness().backend.probe();
    expect(problem).toBeUndefined();
    expect(contents).not.toEqual([]);
  });

  test("captures a sandbox that goes on, and makes clones of it", async () => {
    const { backend, source, target, isRunning } = harness();
    const [contents] = (await backend.probe()).contents;
    const from = await source();
    const handle = newHandle();
    const began = Date.now();
    const { cutAt } = await backend.cut({ source: from, handle, contents: contents!, keepRunning: true });
    expect(new Date(cutAt).getTime()).toBeGreaterThanOrEqual(began - 1);
    expect(await isRunning(from)).toBe(true);
    const record = await backend.whenReady(handle);
    expect(record).toMatchObject({ backend: backend.name, contents, cutAt });
    expect(record.sizeBytes).toBeGreaterThan(0);
    for (const name of ["one", "two"]) {
      const to = await target();
      const { manifestDigest } = record;
      const started = await backend.clone({
        handle,
        manifestDigest,
        contents: contents!,
        target: to,
        identity: identity(name),
      });
      expect(started.state.ready).toBe(true);
      expect(await isRunning(to)).toBe(true);
    }
    expect(await isRunning(from)).toBe(true);
  });

  test("a repeated cut is the first one", async () => {
    const { backend, source } = harness();
    const [contents] = (await backend.probe()).contents;
    const wish = { source: await source(), handle: newHandle(), contents: contents!, keepRunning: true };
    const first = await backend.cut(wish);
    const again = await backend.cut(wish);
    expect(again.cutAt).toBe(first.cutAt);
    expect(again.record?.manifestDigest).toBe(first.record?.manifestDigest);
  });

  test("what was never taken, and what was removed, is CheckpointLost", async () => {
    const { backend, source, target } = harness();
    await expect(backend.whenReady(newHandle())).rejects.toMatchObject({ code: "CheckpointLost" });
    const handle = newHandle();
    const [contents] = (await backend.probe()).contents;
    await backend.cut({ source: await source(), handle, contents: contents!, keepRunning: true });
    const { manifestDigest } = await backend.whenReady(handle);
    await backend.remove(handle);
    await backend.remove(handle);
    await expect(backend.whenReady(handle)).rejects.toMatchObject({ code: "CheckpointLost" });
    const to = await target();
    const wish = { handle, manifestDigest, contents: contents!, target: to, identity: identity("late") };
    await expect(backend.clone(wish)).rejects.toMatchObject({ code: "CheckpointLost" });
  });

  test("whom it cannot reach it calls Unavailable, to be tried again", async () => {
    const { backend, source } = harness();
    const [contents] = (await backend.probe()).contents;
    const nobody = { ...(await source()), ip: "127.255.255.253" };
    const cut = backend.cut({ source: nobody, handle: newHandle(), contents: contents!, keepRunning: true });
    await expect(cut).rejects.toMatchObject({ code: "Unavailable", retryable: true });
  });
}
