import { readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import { outOfMemory, tooManyProcesses } from "./limits.ts";
import type { CgroupPlan, Step } from "./plan.ts";
import { removeGroups, removeIfEmpty } from "./remove-groups.ts";

/** How late the end of one process for want of memory may be seen where the kernel tells nobody. */
const lookEveryMilliseconds = 250;
/** Others may remove the common folder between the making of it and of what is in it; processes may fork while they are moved. */
const rounds = 20;

/** The leaves of one sandbox, from before gVisor starts until after it has ended. */
export class SandboxCgroup {
  readonly #plan: CgroupPlan;
  #moving: Promise<void> = Promise.resolve();
  #removed = false;

  private constructor(plan: CgroupPlan) {
    this.#plan = plan;
  }

  /** @throws the error of the step that was refused; what had been made is removed again */
  static async make(plan: CgroupPlan): Promise<SandboxCgroup> {
    const made = new SandboxCgroup(plan);
    try {
      for (const step of plan.steps) await take(step);
    } catch (error) {
      await made.remove().catch(() => undefined);
      throw error;
    }
    return made;
  }

  /** The files into which a process writes 0 to be in the sandbox's leaves. */
  get enter(): readonly string[] {
    return this.#plan.enter;
  }

  /** Which limit the sandbox has broken, if it has. Synchronous: it is asked at the moment at which the sandbox ends. */
  excess(): RametError | undefined {
    const { oomKills, refusedForks, memory, limits } = this.#plan;
    if (oomKills !== undefined && memory !== undefined && counted(oomKills, "oom_kill") > 0) return outOfMemory(memory);
    if (refusedForks !== undefined && counted(refusedForks, "max") > 0) return tooManyProcesses(limits.processes);
    return undefined;
  }

  /**
   * Resolves when the kernel has ended a process of the sandbox for want of memory. In version 1 that may be one of many,
   * and the sandbox would go on without it; in version 2 all end at once and this is not needed, so it never resolves.
   */
  untilOutOfMemory(): Promise<void> {
    const { oomKills, mustLookForOom } = this.#plan;
    return new Promise((resolve) => {
      if (oomKills === undefined || !mustLookForOom) return;
      const timer = setInterval(() => {
        if (counted(oomKills, "oom_kill") > 0) resolve();
        else if (!this.#removed) return;
        clearInterval(timer);
      }, lookEveryMilliseconds);
      timer.unref();
    });
  }

  /**
   * Charges what gVisor's own process writes meanwhile, a checkpoint's pages in the cache above all, to nobody's limit
   * but the Pod's. The move runs beside the start of the work, which takes longer; the way back is not waited for.
   */
  async aside<T>(pid: number, work: () => Promise<T>): Promise<T> {
    const { aside } = this.#plan;
    if (aside === undefined) return work();
    this.#move(pid, aside.enter);
    try {
      return await work();
    } finally {
      this.#move(pid, aside.leave);
    }
  }

  async remove(): Promise<void> {
    this.#removed = true;
    await this.#moving;
    await removeGroups(this.#plan.remove);
    for (const directory of this.#plan.removeIfEmpty) await removeIfEmpty(directory);
  }

  /** A process that has ended cannot be moved and need not be. */
  #move(pid: number, file: string): void {
    this.#moving = this.#moving.then(() => write(file, `${pid}`)).catch(() => undefined);
  }
}

async function take(step: Step): Promise<void> {
  switch (step.do) {
    case "make":
      return makeDirectory(step.directory);
    case "write":
      try {
        await write(step.file, step.value);
      } catch (error) {
        if (step.optional !== true || (error as NodeJS.ErrnoException).code !== "ENOENT")
          throw refused(`Writing ${step.value} to ${step.file}`, error);
      }
      return;
    case "move-all":
      return moveAll(step.from, step.to);
  }
}

async function makeDirectory(directory: string): Promise<void> {
  for (let round = 1; ; round++) {
    try {
      await mkdir(directory, { recursive: true });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || round === rounds)
        throw refused(`Making the control group ${directory}`, error);
    }
  }
}

/** Until none is left: a process may fork while it is moved. */
async function moveAll(from: string, to: string): Promise<void> {
  for (let round = 1; round <= rounds; round++) {
    const pids = (await readFile(`${from}/cgroup.procs`, "utf8")).split("\n").filter((pid) => pid !== "");
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        await write(`${to}/cgroup.procs`, pid);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw refused(`Moving process ${pid} to ${to}`, error);
      }
    }
  }
  throw new RametError("HostUnsupported", `Moving the processes of ${from} to ${to} failed: new ones keep coming`);
}

/** Without O_CREAT and O_TRUNC: the files of a control group are there or the kernel lacks them. */
function write(file: string, value: string): Promise<void> {
  return writeFile(file, value, { flag: "r+" });
}

function refused(what: string, error: unknown): RametError {
  const { code, message } = error as NodeJS.ErrnoException;
  return new RametError("HostUnsupported", `${what} failed: ${code ?? message}`, { cause: error });
}

/** A counter in a file of `name number` lines; 0 when the file is gone. */
function counted(file: string, name: string): number {
  try {
    const line = readFileSync(file, "utf8")
      .split("\n")
      .find((one) => one.startsWith(`${name} `));
    return line === undefined ? 0 : Number(line.slice(name.length + 1));
  } catch {
    return 0;
  }
}

/**
 * A command that first moves itself into the leaves and then becomes `program`: all that this starts is in there from its
 * first page on. Node can start no process in another group, and moving gVisor afterwards costs 3 to 10 ms a leaf and
 * leaves its first memory with the cell. The shell costs 2 ms.
 */
export function inLeaves(
  enter: readonly string[],
  program: string,
  args: readonly string[],
): { program: string; args: string[] } {
  if (enter.length === 0) return { program, args: [...args] };
  return { program: "/bin/sh", args: ["-c", script, "ramet-enter", ...enter, "--", program, ...args] };
}

/** Exit code 125: the program was never started; env(1) and its like use it so. */
const script = `while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"`;
