import { readFileSync } from "node:fs";
import type { RametError } from "../../base/errors.ts";
import type { CgroupLayout } from "./layout.ts";
import { noLimitBytes } from "./place.ts";
import { outOfMemory } from "./plan.ts";

/** The memory of the group that bounds the sandbox and its cell together: in a Pod that of the container. */
export class ContainerMemory {
  readonly #directory: string;
  readonly #files: Files;
  readonly #killsBefore: number;
  readonly limitBytes: number;

  private constructor(directory: string, files: Files, limitBytes: number) {
    this.#directory = directory;
    this.#files = files;
    this.limitBytes = limitBytes;
    this.#killsBefore = this.#kills();
  }

  /** Returns undefined if the cell's group has no memory limit, or does not bound the sandbox. */
  static of(layout: CgroupLayout): ContainerMemory | undefined {
    const directory = layout.version === 1 ? layout.own.memory : layout.own === layout.mount ? layout.own : undefined;
    if (directory === undefined) return undefined;
    const files = layout.version === 1 ? filesOfV1 : filesOfV2;
    const limit = numberIn(`${directory}/${files.limit}`);
    return limit === undefined || limit >= noLimitBytes ? undefined : new ContainerMemory(directory, files, limit);
  }

  /** The memory in use that the kernel cannot reclaim: all but the page cache. */
  get usedBytes(): number {
    const { stat, usage } = this.#files;
    const inStat = stat.reduce((sum, name) => sum + counted(`${this.#directory}/memory.stat`, name), 0);
    return usage.reduce((sum, file) => sum + (numberIn(`${this.#directory}/${file}`) ?? 0), inStat);
  }

  /** The part of it that is in shared memory: gVisor keeps the memory and the files of a sandbox there. */
  get sandboxBytes(): number {
    return counted(`${this.#directory}/memory.stat`, this.#files.shared);
  }

  /** The error for a sandbox that was killed because of this limit. Synchronous: it is read when the sandbox ends. */
  exceeded(): RametError | undefined {
    if (!this.hasKilledOne) return undefined;
    return outOfMemory({ declaredBytes: this.limitBytes, leafBytes: this.limitBytes });
  }

  /** Whether the kernel has killed a process because of this limit. */
  get hasKilledOne(): boolean {
    return this.#kills() > this.#killsBefore;
  }

  #kills(): number {
    return counted(`${this.#directory}/${this.#files.kills}`, "oom_kill");
  }
}

interface Files {
  limit: string;
  kills: string;
  /** The counters in `memory.stat`, and further files, whose sum cannot be reclaimed. */
  stat: string[];
  /** The counter of shared memory in `memory.stat`. */
  shared: string;
  usage: string[];
}

/** The kernel's admin-guide/cgroup-v1/memory. */
const filesOfV1: Files = {
  limit: "memory.limit_in_bytes",
  kills: "memory.oom_control",
  stat: ["total_rss", "total_shmem"],
  shared: "total_shmem",
  usage: ["memory.kmem.usage_in_bytes"],
};

/** The kernel's admin-guide/cgroup-v2. */
const filesOfV2: Files = {
  limit: "memory.max",
  kills: "memory.events",
  stat: ["anon", "shmem", "kernel", "sock"],
  shared: "shmem",
  usage: [],
};

/** Reads a file with one number. Undefined if it does not exist or holds a word such as `max`. */
export function numberIn(path: string): number | undefined {
  const text = contentOf(path).trim();
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Reads a counter from a file of `name number` lines. 0 if the file does not exist. */
export function counted(file: string, name: string): number {
  const line = contentOf(file)
    .split("\n")
    .find((one) => one.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}

function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
