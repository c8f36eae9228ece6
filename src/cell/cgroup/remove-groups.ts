import { readFile, rmdir, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { RametError } from "../../base/errors.ts";

const betweenTriesMilliseconds = 5;
const boundMilliseconds = 5_000;

/** Ends what is still in these groups and removes them, in this order. One that is gone counts as removed. */
export async function removeGroups(directories: readonly string[]): Promise<void> {
  for (const directory of directories) await removeGroup(directory);
}

/** Removes a group that others may use too, if nothing is in it. */
export async function removeIfEmpty(directory: string): Promise<void> {
  await rmdir(directory).catch(() => undefined);
}

async function removeGroup(directory: string): Promise<void> {
  const deadline = performance.now() + boundMilliseconds;
  for (;;) {
    try {
      await rmdir(directory);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return;
      // Busy: a process that was killed is leaving still.
      if (code !== "EBUSY" || performance.now() > deadline)
        throw new RametError("Internal", `Removing the control group ${directory} failed: ${String(error)}`, {
          cause: error,
        });
    }
    await killAll(directory);
    await sleep(betweenTriesMilliseconds);
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
      // It has ended, which is what was wanted.
    }
  }
}
