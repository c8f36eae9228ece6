import { readdir, readFile, readlink, realpath } from "node:fs/promises";

/**
 * Ends processes at once, as the out-of-memory killer would: those that `pulumi` has started in a program's folder, and itself, as far as
 * their command lines are like this.
 */
export async function killIn(program: string, commandLine = /./): Promise<void> {
  const directory = await realpath(program);
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  for (const pid of pids) {
    // One that has ended meanwhile is no matter.
    const at = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    const words = at === directory ? await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "") : "";
    if (words !== "" && commandLine.test(words)) kill(Number(pid));
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
