import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { counted, numberIn } from "./container-memory.ts";
import { type CgroupPlan, outOfMemory, type Step, tooManyProcesses } from "./plan.ts";
import { removeGroups, removeIfEmpty } from "./record.ts";

/** Another cell may remove the shared directory before a group is created in it; processes may fork while they are moved. */
const attempts = 20;

/** The leaf control groups of one sandbox. They exist from before gVisor starts until after it has exited. */
export class SandboxCgroup {
  readonly #plan: CgroupPlan;
  readonly #clock: Clock;
  #moving: Promise<void> = Promise.resolve();
  #cpuIsLimited = false;

  private constructor(plan: CgroupPlan, clock: Clock) {
    this.#plan = plan;
    this.#clock = clock;
  }

  /** Applies the plan. If a step fails, removes the groups again. @throws RametError `HostUnsupported` */
  static async make(plan: CgroupPlan, clock: Clock = systemClock): Promise<SandboxCgroup> {
    const made = new SandboxCgroup(plan, clock);
    try {
      for (const step of plan.steps) await apply(step);
    } catch (error) {
      await made.remove().catch(() => undefined);
      throw error;
    }
    return made;
  }

  /** The files into which a process writes 0 to enter the sandbox's groups. */
  get enter(): readonly string[] {
    return this.#plan.enter;
  }

  /** The limit that the sandbox has exceeded, if any. Synchronous, because it is read at the moment when the sandbox ends. */
  exceededLimit(): RametError | undefined {
    const { oomKills, aside, refusedForks, memory, limits } = this.#plan;
    const groups = oomKills === undefined ? [] : [oomKills, ...(aside === undefined ? [] : [aside.oomKills])];
    if (memory !== undefined && groups.some((file) => counted(file, "oom_kill") > 0)) return outOfMemory(memory);
    if (refusedForks !== undefined && counted(refusedForks, "max") > 0) return tooManyProcesses(limits.processes);
    return undefined;
  }

  /** Whether the sandbox uses so much of its memory limit that another one may not fit next to it. Synchronous, for a restore. */
  get usesMuchMemory(): boolean {
    const { oomKills, memory } = this.#plan;
    if (oomKills === undefined || memory === undefined) return false;
    const directory = dirname(oomKills);
    const used = numberIn(join(directory, "memory.usage_in_bytes")) ?? numberIn(join(directory, "memory.current")) ?? 0;
    return used > memory.leafBytes / 4;
  }

  /** Whether the kernel has killed a process because of the memory limit. Undefined where it kills the whole sandbox, as in cgroup v2. */
  get hasKilledOne(): boolean | undefined {
    const { oomKills, mustPollForOom } = this.#plan;
    return oomKills === undefined || !mustPollForOom ? undefined : counted(oomKills, "oom_kill") > 0;
  }

  /** Applies the CPU limit. Without it, gVisor takes ten times as long to start with a limit of a tenth of a CPU. */
  limitCpu(): Promise<void> {
    return this.#setCpu("limit");
  }

  /** Lifts the CPU limit: the sandbox can use what its Pod has left. */
  liftCpuLimit(): Promise<void> {
    return this.#setCpu("lift");
  }

  async #setCpu(to: "limit" | "lift"): Promise<void> {
    this.#cpuIsLimited = to === "limit";
    for (const step of this.#plan.cpu?.[to] ?? []) await apply(step);
  }

  /**
   * Charges what gVisor's own process writes during `work`, mostly the page cache of a checkpoint, only to the Pod's limit. The
   * move runs in parallel with the start of the work, which takes longer. The move back is not awaited. Meanwhile the sandbox is
   * paused, and gVisor writes without the sandbox's CPU limit.
   */
  async aside<T>(pid: number, work: () => Promise<T>): Promise<T> {
    const { aside } = this.#plan;
    const isCpuLimited = this.#cpuIsLimited;
    if (isCpuLimited) this.#then(() => this.liftCpuLimit());
    if (aside !== undefined) this.#move(pid, aside.enter);
    try {
      return await work();
    } finally {
      if (aside !== undefined) this.#move(pid, aside.leave);
      if (isCpuLimited) this.#then(() => this.limitCpu());
    }
  }

  async remove(): Promise<void> {
    await this.#moving;
    await removeGroups(this.#plan.remove, this.#clock);
    for (const directory of this.#plan.removeIfEmpty) await removeIfEmpty(directory);
  }

  /** Ignores errors: a process that has exited cannot be moved. */
  #move(pid: number, file: string): void {
    this.#then(() => write(file, `${pid}`));
  }

  #then(change: () => Promise<void>): void {
    this.#moving = this.#moving.then(change).catch(() => undefined);
  }
}

async function apply(step: Step): Promise<void> {
  switch (step.do) {
    case "make":
      return makeDirectory(step.directory);
    case "write":
      try {
        await write(step.file, step.value);
      } catch (error) {
        if (step.optional !== true || (error as NodeJS.ErrnoException).code !== "ENOENT")
          throw rejected(`writing ${step.value} to ${step.file}`, error);
      }
      return;
    case "move-all":
      return moveAll(step.from, step.to);
  }
}

async function makeDirectory(directory: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await mkdir(directory, { recursive: true });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || attempt === attempts)
        throw rejected(`creating the control group ${directory}`, error);
    }
  }
}

/** Repeats until no process is left, because a process may fork while it is moved. */
async function moveAll(from: string, to: string): Promise<void> {
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const pids = (await readFile(`${from}/cgroup.procs`, "utf8")).split("\n").filter((pid) => pid !== "");
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        await write(`${to}/cgroup.procs`, pid);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw rejected(`moving process ${pid} to ${to}`, error);
      }
    }
  }
  throw new RametError(
    "HostUnsupported",
    `moving the processes of ${from} to ${to} failed: new processes keep appearing`,
  );
}

/** Opens without O_CREAT and O_TRUNC: a file of a control group exists or the kernel does not support it. */
function write(file: string, value: string): Promise<void> {
  return writeFile(file, value, { flag: "r+" });
}

function rejected(what: string, error: unknown): RametError {
  const { code, message } = error as NodeJS.ErrnoException;
  return new RametError("HostUnsupported", `${what} failed: ${code ?? message}`, { cause: error });
}

/**
 * Returns a command that moves itself into the groups and then executes `program`, so that all its memory is charged there. Node
 * cannot start a process in another group. Moving gVisor afterwards takes 3 to 10 ms per group and leaves its first memory
 * charged to the cell. The shell takes 2 ms. It also raises the score by which the kernel selects what it kills, so that at the
 * container's limit it kills the sandbox and not the cell, which then reports it (proc_pid_oom_score_adj(5)).
 * @param enter undefined: nothing limits the command
 */
export function inLeaves(
  enter: readonly string[] | undefined,
  program: string,
  args: readonly string[],
): { program: string; args: string[] } {
  if (enter === undefined) return { program, args: [...args] };
  return { program: "/bin/sh", args: ["-c", script, "ramet-enter", ...enter, "--", program, ...args] };
}

/** Exit code 125 means that the program was not started, as for env(1). 300 means a third of the memory. */
const script = [
  `while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift`,
  "read score < /proc/self/oom_score_adj; score=$((score + 300))",
  'if [ "$score" -gt 1000 ]; then score=1000; fi',
  `echo "$score" 2>/dev/null > /proc/self/oom_score_adj; exec "$@"`,
].join("; ");
