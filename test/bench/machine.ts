import { execFile } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { availableParallelism, cpus, release, totalmem } from "node:os";
import { promisify } from "node:util";

/** The machine of the measurements. */
export interface Machine {
  cores: number;
  cpu: string;
  memoryGiB: number;
  kernel: string;
  node: string;
  gvisor: string;
  /** Whether `/dev/kvm` can be opened. gVisor's platform is systrap either way. */
  kvm: boolean;
  user: "root" | "ordinary";
  hugePages: { shmemEnabled: string; defrag: string };
  /** Load of the last minute at the start of the run. Above 0.5 per core, other load affects the figures. */
  loadAtStart: number;
}

const directory = "/sys/kernel/mm/transparent_hugepage";

export async function describeMachine(runsc: string): Promise<Machine> {
  const { stdout } = await promisify(execFile)(runsc, ["--version"]);
  const load = await readFile("/proc/loadavg", "utf8");
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? "unknown",
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    gvisor: /runsc version (\S+)/.exec(stdout)?.[1] ?? "unknown",
    kvm: await open("/dev/kvm", "r+").then(
      (file) => file.close().then(() => true),
      () => false,
    ),
    user: process.getuid?.() === 0 ? "root" : "ordinary",
    hugePages: { shmemEnabled: await chosen("shmem_enabled"), defrag: await chosen("defrag") },
    loadAtStart: Number(load.split(" ")[0]),
  };
}

/** The kernel marks the current value with brackets: `always [never] madvise`. */
async function chosen(file: string): Promise<string> {
  const text = await readFile(`${directory}/${file}`, "utf8").catch(() => "");
  return /\[(.+?)\]/.exec(text)?.[1] ?? "unknown";
}
