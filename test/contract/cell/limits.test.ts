import { once } from "node:events";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { CellState, CheckpointResult, ContainerSpec } from "../../../src/api/wire/cell-api.ts";
import { delay, systemClock } from "../../../src/base/clock.ts";
import { cgroupLayout } from "../../../src/cell/cgroup/layout.ts";
import { sweepCgroups } from "../../../src/cell/cgroup/record.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells, namespace } from "../../setup/cells.ts";

const mebibyte = 1024 ** 2;
/** Allocates 256 MiB in which no two pages are equal. */
const hold = `import time
a = bytearray(${256 * mebibyte})
for i in range(0, len(a), 4096): a[i:i+4] = (i // 4096 + 1).to_bytes(4, "big")
print("held", flush=True)
time.sleep(1000)`;
const layout = cgroupLayout(
  await readFile("/proc/self/cgroup", "utf8"),
  await readFile("/proc/self/mountinfo", "utf8"),
);
/** Whether this process can create groups: as root, with cgroup v1. Unit tests of the plan cover cgroup v2. */
const own = layout?.version === 1 && process.getuid?.() === 0 ? layout.own : {};

describe.runIf(own.memory !== undefined && own.cpu !== undefined && own.pids !== undefined)(
  "limits of a sandbox",
  () => {
    let cells: Cells;

    beforeAll(async () => {
      cells = await Cells.open();
    });
    afterAll(() => cells.close());

    async function boot(
      name: string,
      resources: ContainerSpec["resources"],
      environment: Record<string, string> = {},
    ): Promise<RunningCell> {
      const container = { command: ["sleep", "infinity"], resources };
      const cell = await cells.boot({ name, container, environment });
      onTestFinished(() => {
        cell.process.kill("SIGTERM");
      });
      return cell;
    }

    /** Runs a Python program until it or its sandbox ends, and returns its output. */
    async function python(cell: RunningCell, program: string): Promise<string> {
      let text = "";
      try {
        for await (const event of cells.guestOf(cell).startProcess({ command: "python3", args: ["-c", program] })) {
          if (event.type === "data") text += event.data.toString();
        }
      } catch {
        // The sandbox ended during the command.
      }
      return text.trim();
    }

    /** Resolves to the last state that an ending cell reports. */
    async function lastState(cell: RunningCell): Promise<CellState | undefined> {
      let last: CellState | undefined;
      try {
        for (;;) {
          last = await cells.client.state(cell.address, AbortSignal.timeout(60_000));
          await delay(systemClock, 20);
        }
      } catch {
        // The connection ends with the cell.
      }
      return last;
    }

    it("kills a sandbox that exceeds its memory limit with a clear message, and no other one", async () => {
      const neighbour = await boot("neighbour", { memoryBytes: 256 * mebibyte });
      const hog = await boot("hog", { memoryBytes: 256 * mebibyte });
      const ended = lastState(hog);
      const exited = once(hog.process, "exit");
      await python(hog, `b"x" * ${1024 * mebibyte}`);
      expect(await ended).toMatchObject({
        phase: "failed",
        ready: false,
        code: "OutOfMemory",
        message: "the sandbox was killed: it exceeded its memory limit of 256Mi",
      });
      expect(await exited).toEqual([70, null]);
      expect(await groupsOf(hog)).toEqual([]);
      expect(await python(neighbour, "print(6 * 7)")).toBe("42");
    });

    it("checkpoints a sandbox close to its memory limit, on disk and in memory, and clones it", async () => {
      const resources = { memoryBytes: 320 * mebibyte };
      const cell = await boot("full", resources);
      const held = cells.guestOf(cell).startProcess({ command: "python3", args: ["-c", hold] });
      for await (const event of held) if (event.type === "data") break;
      const onDisk = await cells.checkpoint(cell, "full-1");
      expect(onDisk.sizeBytes).toBeGreaterThan(256 * mebibyte);
      expect(await python(cell, "print(6 * 7)")).toBe("42");
      // Files there are charged like the sandbox's own memory, and the kernel cannot evict them.
      const inMemory = await checkpointInMemory(cell, "full-2");
      expect(inMemory.sizeBytes).toBeGreaterThan(256 * mebibyte);
      expect(await python(cell, "print(6 * 7)")).toBe("42");
      const container = { command: ["sleep", "infinity"], resources };
      const { manifestDigest } = onDisk;
      const clone = await cells.clone({ name: "clone", container }, { checkpointId: "full-1", manifestDigest });
      expect(await python(clone, "print(6 * 7)")).toBe("42");
    });

    async function checkpointInMemory(cell: RunningCell, checkpointId: string): Promise<CheckpointResult> {
      const root = `/dev/shm/ramet-limits-${process.pid}`;
      await mkdir(root);
      onTestFinished(() => rm(root, { recursive: true, force: true }));
      const store = directoryStore({ root });
      const grant = await store.grantWrite({ namespace, checkpointId, ttlMilliseconds: 60_000 });
      return cells.client.checkpoint(cell.address, { grant, contents: both, keepRunning: true });
    }

    it("limits a busy loop to its CPU quota, also with several threads", async () => {
      const cell = await boot("busy", { cpuMillis: 300 });
      const spinning = python(cell, "import os\nos.fork()\nwhile True: pass");
      // Throttled periods prove that the quota limits it, and not other load on the machine.
      const before = await throttledPeriodsOf(cell);
      await expect.poll(() => throttledPeriodsOf(cell)).toBeGreaterThan(before + 10);
      // The time contains that of both readings, which takes long on a busy machine.
      const at = performance.now();
      const [usedBefore, throttled] = [await cpuSecondsOf(cell), await throttledPeriodsOf(cell)];
      await expect.poll(() => throttledPeriodsOf(cell)).toBeGreaterThan(throttled + 20);
      const share = (await cpuSecondsOf(cell)) - usedBefore;
      const seconds = (performance.now() - at) / 1_000;
      await cells.client.stop(cell.address, "the test is over");
      await spinning;
      expect(share / seconds).toBeLessThan(0.36);
    });

    it("ends a fork bomb in a sandbox without limits while another sandbox can still fork", async () => {
      const neighbour = await boot("neighbour", {});
      const bomb = await boot("bomb", {}, { RAMET_SANDBOX_PROCESSES: "150" });
      const ended = lastState(bomb);
      await python(bomb, "import os,time\nwhile os.fork() or True: pass");
      expect(await ended).toMatchObject({
        phase: "failed",
        code: "SandboxLost",
        message: expect.stringContaining("exceeded its limit of 150 processes and threads") as string,
      });
      expect(await python(neighbour, "import subprocess; print(subprocess.call(['true']))")).toBe("0");
    });

    it("applies the default memory limit of the machine to a sandbox without limits", async () => {
      const hog = await boot("hog", {}, { RAMET_DEFAULT_MEMORY_BYTES: `${256 * mebibyte}` });
      const ended = lastState(hog);
      await python(hog, `b"x" * ${1024 * mebibyte}`);
      expect(await ended).toMatchObject({ phase: "failed", code: "OutOfMemory" });
    });

    it("removes the groups of a stopped cell, and those of a killed cell in a sweep", async () => {
      const stopped = await boot("stopped", { memoryBytes: 256 * mebibyte, cpuMillis: 1_000 });
      expect(await groupsOf(stopped)).not.toEqual([]);
      await cells.client.stop(stopped.address, "the test is over");
      expect(await groupsOf(stopped)).toEqual([]);
      const killed = await boot("killed", { memoryBytes: 256 * mebibyte, cpuMillis: 1_000 });
      const exited = once(killed.process, "exit");
      killed.process.kill("SIGKILL");
      await exited;
      await sweepCgroups(killed.directory);
      expect(await groupsOf(killed)).toEqual([]);
    });

    it("limits only the processes of a sandbox without limits", async () => {
      const cell = await boot("free", {});
      expect((await groupsOf(cell)).map((directory) => directory.startsWith(own.pids ?? "-"))).toEqual([true]);
      expect(await cells.client.state(cell.address)).not.toHaveProperty("unenforced");
    });
  },
);

/** Returns the groups on this machine that are named after a cell. */
async function groupsOf({ address }: RunningCell): Promise<string[]> {
  const parents = Object.values(own).map((directory) => join(directory, "ramet"));
  const found = await Promise.all(
    parents.map(async (parent) => (await readdir(parent).catch(() => [])).map((name) => join(parent, name))),
  );
  return found.flat().filter((directory) => directory.endsWith(`/${address.sandboxUid}`));
}

async function processesOf(cell: RunningCell): Promise<string[]> {
  const directory = (await groupsOf(cell)).find((one) => one.startsWith(own.cpu ?? "-"));
  const text = await readFile(`${directory ?? ""}/sandbox/cgroup.procs`, "utf8");
  return text.trim().split("\n");
}

/** Returns the number of periods in which a cell's leaf used up its quota. */
async function throttledPeriodsOf(cell: RunningCell): Promise<number> {
  const directory = (await groupsOf(cell)).find((one) => one.startsWith(own.cpu ?? "-"));
  const text = await readFile(`${directory ?? ""}/sandbox/cpu.stat`, "utf8");
  return Number(/^nr_throttled (\d+)$/m.exec(text)?.[1]);
}

/** Returns the CPU time of all processes in a cell's leaf: fields 14 and 15 of proc_pid_stat(5), in ticks of 10 ms. */
async function cpuSecondsOf(cell: RunningCell): Promise<number> {
  let ticks = 0;
  for (const pid of await processesOf(cell)) {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    ticks += Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
  }
  return ticks / 100;
}
