import { readFile, rmdir, writeFile } from "node:fs/promises";
import { type Clock, delay, systemClock } from "../../base/clock.ts";
import { RametError, textOfError } from "../../base/errors.ts";

const betweenTriesMilliseconds = 5;
const timeoutMilliseconds = 5_000;

/** Kills the processes in these groups and removes the groups, in this order. Missing groups are ignored. */
export async function removeGroups(directories: readonly string[], clock: Clock = systemClock): Promise<void> {
  for (const directory of directories) await removeGroup(directory, clock);
}

/** Removes a shared group if it is empty. */
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
  const killed = await writeFile(`${directory}/cgroup.kill`, "1", { flag: "r+" }).then(
    () => true,
    () => false,
  );
  if (killed) return;
  const text = await readFile(`${directory}/cgroup.procs`, "utf8").catch(() => "");
  for (const pid of text
    .split("\n")
    .map(Number)
    .filter((one) => one > 1 && one !== process.pid)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has exited already.
    }
  }
}
