import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells } from "../../setup/cells.ts";

/** Counts in a file of the volume, which the test reads from outside. */
const counting = `
import time
n = 0
while True:
    n += 1
    with open('/data/count', 'w') as f: f.write(str(n))
    time.sleep(0.005)
`;

/** A real cell with a directory as its volume. It does not prove what a CSI driver captures. */
describe("a sandbox that is held for the capture of its volumes", () => {
  let cells: Cells;
  let source: RunningCell;

  beforeAll(async () => {
    cells = await Cells.open();
    source = await boot("source");
  });
  afterAll(() => cells.close());

  const volume = (name: string): string => join(cells.rig.directory, `data-${name}`);

  async function boot(name: string): Promise<RunningCell> {
    await mkdir(volume(name), { mode: 0o777 });
    const mounts = [{ source: volume(name), target: "/data", readOnly: false }];
    const cell = await cells.boot({ name, container: { command: ["python3", "-c", counting], mounts } });
    await vi.waitFor(() => count(name), { timeout: 20_000 });
    return cell;
  }

  const count = async (name = "source"): Promise<string> => readFile(join(volume(name), "count"), "utf8");
  async function isCounting(name = "source"): Promise<boolean> {
    const before = await count(name);
    await sleep(300);
    return (await count(name)) !== before;
  }

  const hold = (checkpointId: string, milliseconds = 60_000) =>
    cells.client.hold(source.address, { checkpointId, milliseconds });
  const release = (checkpointId: string) => cells.client.release(source.address, { checkpointId });

  async function captureHeld(checkpointId: string, contents: Contents = both) {
    const grant = await cells.writeGrant(checkpointId);
    return cells.client.checkpoint(source.address, { grant, contents, keepRunning: true, held: true });
  }

  it("does not run until it is released, and reports how long it was paused", async () => {
    await hold("one");
    expect(await isCounting()).toBe(false);
    // A repeated call changes nothing.
    await hold("one");
    const { pausedMilliseconds } = await release("one");
    expect(pausedMilliseconds).toBeGreaterThan(290);
    await expect.poll(() => isCounting()).toBe(true);
    expect(await release("one")).toEqual({});
  });

  it("resumes by itself if the controller never comes back, and is not captured after that", async () => {
    // Longer than the check takes on a busy machine.
    await hold("two", 2_000);
    expect(await isCounting()).toBe(false);
    await expect.poll(() => isCounting()).toBe(true);
    await expect(captureHeld("two")).rejects.toMatchObject({ code: "Timeout" });
    expect((await cells.client.state(source.address)).checkpointing).toBeUndefined();
  });

  it.each([
    ["memory and files", both],
    ["files", ["filesystem"] satisfies Contents],
  ] as const)("is captured in the pause with %s, and runs afterwards", async (_, contents) => {
    const id = `held-${contents.length}`;
    await hold(id);
    const { pausedMilliseconds, manifestDigest } = await captureHeld(id, [...contents]);
    expect(pausedMilliseconds).toBeGreaterThan(0);
    expect(manifestDigest).toMatch(/^sha256:/);
    await expect.poll(() => isCounting()).toBe(true);
    expect((await cells.client.state(source.address)).checkpointing).toBeUndefined();
  });

  it("refuses other captures meanwhile, and a release for another one changes nothing", async () => {
    await hold("three");
    await expect(cells.checkpoint(source, "other")).rejects.toMatchObject({ code: "Conflict", retryable: true });
    await expect(hold("other")).rejects.toMatchObject({ code: "Conflict" });
    await release("other");
    expect(await isCounting()).toBe(false);
    await release("three");
    await expect.poll(() => isCounting()).toBe(true);
  });

  it("can be stopped while it is held", async () => {
    const short = await boot("short");
    await cells.client.hold(short.address, { checkpointId: "four", milliseconds: 60_000 });
    await cells.client.stop(short.address, "the test is over");
    await expect.poll(() => short.process.exitCode).not.toBeNull();
  });

  it("flushes its volumes without a pause", async () => {
    await cells.client.sync(source.address);
    await expect.poll(() => isCounting()).toBe(true);
  });
});
