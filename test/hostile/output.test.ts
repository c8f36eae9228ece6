import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells } from "../setup/cells.ts";
import { cellPid, peakMebibytes } from "./processes.ts";

const mebibyte = 1024 ** 2;
/** Clock ticks of proc_pid_stat(5). */
const ticksPerSecond = 100;

describe("a sandbox that prints as fast as it can", () => {
  let cells: Cells;

  beforeAll(async () => {
    cells = await Cells.open();
  });
  afterAll(() => cells.close());

  it.each([
    ["short lines", "yes"],
    ["one line without an end", "tr '\\0' A </dev/zero"],
  ])("costs its cell little memory and CPU time for %s", async (_, program) => {
    const cell = await cells.boot({
      name: "printer",
      container: {
        command: ["sh", "-c", program],
        resources: { cpuMillis: 100, memoryBytes: 128 * mebibyte },
      },
    });
    const pid = await cellPid(cell);
    const [ticks, at] = [await cpuTicks(pid), performance.now()];
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    const share = ((await cpuTicks(pid)) - ticks) / ticksPerSecond / ((performance.now() - at) / 1000);
    const peak = await peakMebibytes(pid);
    const logged = await loggedBytes(cell);
    if (process.env["RAMET_PRINT_FIGURES"] !== undefined)
      process.stdout.write(`${program}: ${share.toFixed(2)} CPU, peak ${peak.toFixed(0)} MiB, log ${logged} B\n`);
    expect(await cells.client.state(cell.address)).toMatchObject({ phase: "running", ready: true });
    expect(logged).toBeGreaterThan(0);
    expect(logged).toBeLessThan(30 * mebibyte);
    expect(peak).toBeLessThan(200);
    expect(share).toBeLessThan(0.3);
    await cells.client.stop(cell.address, "the test is over");
  });
});

/** User and system time: fields 14 and 15. */
async function cpuTicks(pid: number): Promise<number> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

async function loggedBytes({ directory }: RunningCell): Promise<number> {
  const logs = join(directory, "log");
  const sizes = (await readdir(logs)).map(async (name) => (await stat(join(logs, name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
