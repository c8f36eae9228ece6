import { readFile, rmdir, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { RametError } from "../../base/errors.ts";

const betweenTriesMilliseconds = 5;
const boundMilliseconds = 5_000;

/** Ends what is still in these groups and removes them, in this order. One that is gone counts as removed. */
export async function removeGroups(folders: readonly string[]): Promise<void> {
  for (const folder of folders) await removeGroup(folder);
}

/** Removes a group that others may use too, if nothing is in it. */
export async function removeIfEmpty(folder: string): Promise<void> {
  await rmdir(folder).catch(() => undefined);
}

async function removeGroup(folder: string): Promise<void> {
  const deadline = performance.now() + boundMilliseconds;
  for (;;) {
    try {
      await rmdir(folder);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return;
      // Busy: a process that was killed is leaving still.
      if (code !== "EBUSY" || performance.now() > deadline)
        throw new RametError("Internal", `Removing the control group ${folder} failed: ${String(error)}`, {
          cause: error,
        });
    }
    await killAll(folder);
    await sleep(betweenTriesMilliseconds);
  }
}

async function killAll(folder: string): Promise<void> {
  const killed = await writeFile(`${folder}/cgroup.kill`, "1", { flag: "r+" }).then(
    () => true,
    () => false,
  );
  if (killed) return;
  const text = await readFile(`${folder}/cgroup.procs`, "utf8").catch(() => "");
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
