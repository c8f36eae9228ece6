import { existsSync } from "node:fs";
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const roots = [
  { path: "/sys/fs/cgroup/cpuacct", file: "cpuacct.usage", seconds: (text: string) => Number(text) / 1e9 },
  {
    path: "/sys/fs/cgroup",
    file: "cpu.stat",
    seconds: (text: string) => Number(/^usage_usec (\d+)/m.exec(text)?.[1]) / 1e6,
  },
] as const;

/**
 * Counts the CPU time of all processes that one side of a comparison starts, including ended and reparented processes, which
 * sums over `/proc` would miss. It is a cgroup that this process joins while it starts them; its own work as their client is
 * counted too.
 */
export class CpuAccount {
  readonly #path: string;
  readonly #root: (typeof roots)[number];

  private constructor(root: (typeof roots)[number], path: string) {
    this.#root = root;
    this.#path = path;
  }

  /** Undefined if this user cannot create cgroups. The report then omits CPU time. */
  static async open(name: string): Promise<CpuAccount | undefined> {
    for (const root of roots) {
      const path = join(root.path, `ramet-bench-${name}-${process.pid}`);
      try {
        await mkdir(path);
      } catch {
        continue;
      }
      if (existsSync(join(path, root.file))) return new CpuAccount(root, path);
      await rmdir(path);
    }
    return undefined;
  }

  /** Processes started from now on are counted here. */
  async join(): Promise<void> {
    await writeFile(join(this.#path, "cgroup.procs"), `${process.pid}`);
  }

  async seconds(): Promise<number> {
    return this.#root.seconds(await readFile(join(this.#path, this.#root.file), "utf8"));
  }

  async close(): Promise<void> {
    await writeFile(join(this.#root.path, "cgroup.procs"), `${process.pid}`);
    // Killed processes leave a cgroup shortly after they have ended.
    for (let tries = 0; tries < 50; tries++) {
      try {
        await rmdir(this.#path);
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }
}
