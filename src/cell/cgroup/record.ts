import { readFile, rm, writeFile, rmdir } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type CgroupPlan, commonDirectory } from "./plan.ts";
import { type Clock, delay, systemClock } from "../../base/clock.ts";
import { RametError, textOfError, isFulfilled } from "../../base/errors.ts";
import { parsedJson } from "../../base/tolerant-parse.ts";

const CgroupRecord = z.object({ v: z.literal(1), remove: z.array(z.string()), removeIfEmpty: z.array(z.string()) });

/** Records the groups that a cell will create, so that they can be removed if the cell is killed. */
export async function writeCgroupRecord(
  directory: string,
  { remove, removeIfEmpty: shared }: CgroupPlan,
): Promise<void> {
  const record: z.infer<typeof CgroupRecord> = { v: 1, remove, removeIfEmpty: shared };
  await writeFile(recordFile(directory), JSON.stringify(record), { mode: 0o600 });
}

/**
 * Removes the groups that a killed cell has recorded in its directory. None of its processes may run any more. The directory of
 * a group can be removed only while the group is empty, so a wrong record does no harm.
 */
export async function sweepCgroups(directory: string): Promise<void> {
  const text = await readFile(recordFile(directory), "utf8").catch(() => undefined);
  if (text === undefined) return;
  // A record that is incomplete after a crash of the machine: its groups no longer exist.
  const record = parsedJson(CgroupRecord, text);
  await removeGroups((record?.remove ?? []).filter(isRametGroup));
  for (const directory of (record?.removeIfEmpty ?? []).filter(isRametGroup)) await removeIfEmpty(directory);
  await rm(recordFile(directory), { force: true });
}

function recordFile(directory: string): string {
  return join(directory, "cgroups.json");
}

function isRametGroup(directory: string): boolean {
  return directory.split("/").includes(commonDirectory);
}

const betweenTriesMilliseconds = 5;
const timeoutMilliseconds = 5_000;

/** Kills the processes in these groups and removes the groups, in this order. Missing groups are ignored. */
export async function removeGroups(directories: readonly string[], clock: Clock = systemClock): Promise<void> {
  for (const directory of directories) await removeGroup(directory, clock);
}

export async function removeIfEmpty(directory: string): Promise<void> {
  await rmdir(directory).catch(() => undefined);
}

async function removeGroup(directory: string, clock: Clock): Promise<void> {
  const deadline = clock.monotonicMilliseconds() + timeoutMilliseconds;
  for (;;) {
    try {
      await rmdir(directory);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return;
      // EBUSY: a killed process is still exiting.
      if (code !== "EBUSY" || clock.monotonicMilliseconds() > deadline)
        throw new RametError("Internal", `removing the control group ${directory} failed: ${textOfError(error)}`, {
          cause: error,
        });
    }
    await killAll(directory);
    await delay(clock, betweenTriesMilliseconds);
  }
}

async function killAll(directory: string): Promise<void> {
  const killed = await isFulfilled(writeFile(`${directory}/cgroup.kill`, "1", { flag: "r+" }));
  if (killed) return;
  const text = await readFile(`${directory}/cgroup.procs`, "utf8").catch(() => "");
  const pids = text.split("\n").map(Number);
  for (const pid of pids.filter((one) => one > 1 && one !== process.pid)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has exited already.
    }
  }
}
