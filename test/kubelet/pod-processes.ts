import { readdir, readFile } from "node:fs/promises";

/** Kills the process of a Pod's container. */
export async function killProcess(program: string, pod: string): Promise<void> {
  for (const pid of await processes()) {
    if (!(await ofProcess(pid, "environ")).split("\0").includes(`HOSTNAME=${pod}`)) continue;
    if (!(await ofProcess(pid, "cmdline")).includes(program)) continue;
    process.kill(Number(pid), "SIGKILL");
    return;
  }
  throw new Error(`no process of ${pod}`);
}

/** The processes in the control groups of a Pod, or those of a program. */
export async function processesOf(uid: string, program = ""): Promise<string[]> {
  const found = (await processes()).map(async (pid) => {
    const isOfPod = (await ofProcess(pid, "cgroup")).includes(`pod${uid}`);
    return isOfPod && (await ofProcess(pid, "cmdline")).includes(program) ? [pid] : [];
  });
  return (await Promise.all(found)).flat();
}

const processes = async () => (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
const ofProcess = (pid: string, file: string) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
