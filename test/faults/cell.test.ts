import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { workloadPort } from "../bench/workload.ts";
import type { RunningCell } from "../setup/cell-rig.ts";
import { CellWorld } from "./cell-world.ts";
import { Instants } from "./instants.ts";
import { engineCommandRuns } from "./engine-command.ts";
import { descendants, killNow, processesWith } from "./processes.ts";

/** Large enough that a checkpoint takes a few hundred milliseconds, so that a kill can hit the middle of it. */
const sizeMiB = 128;

describe("a cell whose processes are killed", () => {
  const instants = new Instants();
  let world: CellWorld;

  beforeAll(async () => {
    world = await CellWorld.open();
  });
  afterAll(() => world.close());

  async function expectNoProcesses(cell: RunningCell): Promise<void> {
    await expect.poll(() => processesWith(cell.directory), { interval: 20 }).toEqual([]);
  }

  it("publishes all of a checkpoint or nothing if the cell is killed, and keeps earlier ones", async () => {
    const first = await world.source("earlier", sizeMiB);
    await world.checkpoint(first, "earlier-1");
    await world.end(first);
    for (let round = 0; round < 4; round++) {
      const checkpointId = `killed-${round}`;
      const source = await world.source("source", sizeMiB);
      const attempt = world.checkpoint(source, checkpointId).then(
        () => "succeeded",
        () => "failed",
      );
      const instant = instants.below(700);
      await sleep(instant);
      source.process.kill("SIGKILL");
      const outcome = await attempt;
      console.log(`faults: cell killed ${instant} ms after the request: the call ${outcome}`);
      await expectNoProcesses(source);
      const published = await world.published(checkpointId);
      if (outcome === "succeeded") expect(published).toBeDefined();
      if (published !== undefined) expect(await world.countInClone(checkpointId, sizeMiB)).toBe(2);
    }
    await world.sweptOrphans();
    expect(await world.stagingBytes()).toBe(0);
    expect(await world.countInClone("earlier-1", sizeMiB)).toBe(2);
  });

  it("fails a checkpoint if runsc is killed; the source keeps running and a repeat succeeds", async () => {
    const source = await world.source("source", sizeMiB);
    const attempt = world.checkpoint(source, "engine-1");
    const failed = expect(attempt).rejects.toThrow(/the sandbox keeps running/);
    killNow(await engineCommandRuns("checkpoint", source.directory));
    await failed;
    expect(await world.count(source)).toBe(2);
    await world.checkpoint(source, "engine-1");
    expect(await world.count(source)).toBe(3);
    expect(await world.countInClone("engine-1", sizeMiB)).toBe(3);
    await world.end(source);
  });

  it("fails a clone if runsc is killed in a restore, before it is reachable; the next clone works", async () => {
    const source = await world.source("source", sizeMiB);
    await world.checkpoint(source, "restored-1");
    const { cell, restore } = await world.cloneOf("doomed", "restored-1", sizeMiB);
    const exited = once(cell.process, "exit");
    const attempt = expect(restore()).rejects.toMatchObject({ name: "RametError" });
    killNow(await engineCommandRuns("restore", cell.directory));
    await attempt;
    await expectNoResponse(cell);
    expect(await exited).toEqual([70, null]);
    await expectNoProcesses(cell);
    expect(await world.countInClone("restored-1", sizeMiB)).toBe(2);
    expect(await world.count(source)).toBe(2);
    await world.end(source);
  });

  it("leaves nothing behind if the cell is killed in a restore; the next clone works", async () => {
    const source = await world.source("source", sizeMiB);
    await world.checkpoint(source, "interrupted-1");
    for (let round = 0; round < 3; round++) {
      const { cell, restore } = await world.cloneOf("doomed", "interrupted-1", sizeMiB);
      const attempt = restore().catch(() => undefined);
      const instant = instants.below(400);
      await sleep(instant);
      cell.process.kill("SIGKILL");
      await attempt;
      console.log(`faults: cell killed ${instant} ms after the request to clone`);
      await expectNoProcesses(cell);
    }
    expect(await world.countInClone("interrupted-1", sizeMiB)).toBe(2);
    expect(await world.count(source)).toBe(2);
    await world.end(source);
  });

  it.each([
    ["link", "ramet-link net"],
    ["gVisor's sandbox", "runsc-sandbox"],
  ])("reports that the sandbox is lost, exits and leaves nothing behind if %s is killed", async (_, commandLine) => {
    const source = await world.source("lost");
    const exited = once(source.process, "exit");
    killNow(await victim(source, commandLine));
    expect(await exited).toEqual([70, null]);
    expect(source.logLines.join("\n")).toContain("SandboxLost");
    await expectNoProcesses(source);
  });

  it("fails a clone whose hook never ends, before it is reachable", async () => {
    const source = await world.source("hooked");
    const hook = "/etc/ramet/on-restore.d/10-stuck";
    await world.run(
      source,
      `mkdir -p /etc/ramet/on-restore.d; printf '#!/bin/sh\\nsleep 600\\n' > ${hook}; chmod +x ${hook}`,
    );
    await world.checkpoint(source, "hooked-1");
    const { cell, restore } = await world.cloneOf("stuck", "hooked-1");
    const exited = once(cell.process, "exit");
    const attempt = restore().then(
      () => "restored",
      (error: unknown) => error,
    );
    let reached = 0;
    const over = new AbortController();
    const watching = (async () => {
      while (!over.signal.aborted) {
        if (await responds(cell)) reached++;
        await sleep(20);
      }
    })();
    expect(await attempt).toMatchObject({ code: "HandoverFailed", message: expect.stringContaining(hook) as string });
    await exited;
    over.abort();
    await watching;
    expect(reached).toBe(0);
    await expectNoProcesses(cell);
    await world.end(source);
  });
});

/** Whether the sandbox responds on its declared port. */
async function responds({ address }: RunningCell): Promise<boolean> {
  return fetch(`http://${address.ip}:${workloadPort}`, { signal: AbortSignal.timeout(500) }).then(
    () => true,
    () => false,
  );
}

async function expectNoResponse(cell: RunningCell): Promise<void> {
  expect(await responds(cell)).toBe(false);
}

/** Link's command line has no directory, so it is found as a child of the cell's processes. */
async function victim(cell: RunningCell, commandLine: string): Promise<number> {
  const family = await descendants(cell.process.pid ?? 0);
  const found = family.find((each) => each.commandLine.includes(commandLine));
  if (found === undefined) throw new Error(`the cell has no process ${commandLine}`);
  return found.pid;
}
