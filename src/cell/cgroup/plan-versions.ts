import { controllers, type V1Controller } from "./layout.ts";
import {
  type CgroupPlan,
  commonDirectory,
  cpuPeriodMicroseconds,
  cpuQuotaMicroseconds,
  type GroupBounds,
  make,
  missingLimits,
  type SandboxLimits,
  type Share,
  shareOf,
  type Step,
  write,
} from "./plan.ts";

/** Where groups can be created in the hierarchies of version 1: below the cell's own groups. */
export interface V1Place {
  own: Partial<Record<V1Controller, string>>;
  /** The limits of a Pod's container. Empty on a machine, where the cell's group is also that of other cells. */
  bounds: GroupBounds;
}

/**
 * Plans leaf groups below the cell's own groups, only where there is something to limit: `ramet/<uid>/sandbox` and, for memory,
 * `ramet/<uid>/cut` for checkpoints. The cell stays in its own group, which version 1 allows. For the files see the kernel's
 * admin-guide/cgroup-v1.
 */
export function planV1({ own, bounds }: V1Place, { uid, limits }: { uid: string; limits: SandboxLimits }): CgroupPlan {
  const share = shareOf(limits, bounds);
  const groups = controllers.flatMap((controller) => {
    const parent = own[controller];
    const base = `${parent ?? ""}/${commonDirectory}/${uid}`;
    const set = settings(controller, `${base}/sandbox`, share);
    return parent === undefined || set.length === 0 ? [] : [{ controller, base, set }];
  });
  const [memory, cpu, pids] = controllers.map((name) => groups.find(({ controller }) => controller === name)?.base);
  const quota = (microseconds: number) => write(`${cpu ?? ""}/sandbox/cpu.cfs_quota_us`, microseconds);
  const cut = memory && `${memory}/cut`;
  return {
    steps: [
      ...groups.flatMap(({ base, set }) => [make(`${base}/sandbox`), ...set]),
      ...(cut === undefined ? [] : [make(cut)]),
    ],
    // A thread moves itself through `tasks` immediately; through `cgroup.procs` it waits for all threads (3 to 5 ms).
    enter: groups.map(({ base }) => `${base}/sandbox/tasks`),
    aside: memory === undefined ? undefined : asideOf(memory),
    cpu:
      cpu === undefined || share.cpuMillis === undefined
        ? undefined
        : // -1: no limit.
          { limit: [quota(cpuQuotaMicroseconds(share.cpuMillis))], lift: [quota(-1)] },
    remove: [
      ...groups.map(({ base }) => `${base}/sandbox`),
      ...(cut === undefined ? [] : [cut]),
      ...groups.map(({ base }) => base),
    ],
    removeIfEmpty: groups.map(({ base }) => base.slice(0, -uid.length - 1)),
    oomKills: memory && `${memory}/sandbox/memory.oom_control`,
    mustPollForOom: memory !== undefined,
    refusedForks: pids && `${pids}/sandbox/pids.events`,
    memory: memory === undefined ? undefined : share.memory,
    limits: { ...limits, processes: share.processes },
    missing: missingLimits(limits, (name) => (name === "memory" ? memory : cpu) !== undefined),
  };
}

function asideOf(memory: string): CgroupPlan["aside"] {
  return {
    enter: `${memory}/cut/cgroup.procs`,
    leave: `${memory}/sandbox/cgroup.procs`,
    oomKills: `${memory}/cut/memory.oom_control`,
  };
}

/** The settings of a controller's leaf group. Empty if there is nothing to limit. */
function settings(controller: V1Controller, leaf: string, { memory, cpuMillis, processes }: Share): Step[] {
  switch (controller) {
    case "memory":
      if (memory === undefined) return [];
      return [
        write(`${leaf}/memory.limit_in_bytes`, memory.leafBytes),
        // Memory plus swap. Without it the limit only makes the machine swap.
        { do: "write", file: `${leaf}/memory.memsw.limit_in_bytes`, value: `${memory.leafBytes}`, optional: true },
      ];
    case "cpu":
      return cpuMillis === undefined ? [] : [write(`${leaf}/cpu.cfs_period_us`, cpuPeriodMicroseconds)];
    case "pids":
      return [write(`${leaf}/pids.max`, processes)];
  }
}

/** Where groups can be created in the unified hierarchy. */
export interface V2Place {
  /** `pod`: `parent` is the group of the container, and holds only the cell. `machine`: any other `parent`. */
  kind: "pod" | "machine";
  /** The group below which the leaf groups are created. */
  parent: string;
  /** Controllers that `parent` can delegate. */
  controllers: readonly string[];
  /** The limits of `parent`. */
  bounds: GroupBounds;
}

/**
 * Plans the leaf groups `sandbox`, `cut` (for checkpoints) and, in a Pod, `cell` for the processes already in the container: in
 * version 2 a group that delegates controllers has no processes. For the files see the kernel's admin-guide/cgroup-v2.
 */
export function planV2(place: V2Place, { uid, limits }: { uid: string; limits: SandboxLimits }): CgroupPlan {
  const { kind, parent } = place;
  const base = kind === "pod" ? parent : `${parent}/${commonDirectory}/${uid}`;
  const [leaf, cut] = [`${base}/sandbox`, `${base}/cut`];
  const { memory, cpuMillis, processes } = enforceable(place, limits);
  const cpuMax = (quota: string | number) => [write(`${leaf}/cpu.max`, `${quota} ${cpuPeriodMicroseconds}`)];
  return {
    steps: [
      ...(kind === "pod" ? podSteps(base) : machineSteps(place, base)),
      ...delegateControllers(place, base),
      make(leaf),
      ...(memory === undefined ? [] : memorySettings(leaf, memory.leafBytes)),
      ...(processes === undefined ? [] : [write(`${leaf}/pids.max`, processes)]),
      make(cut),
    ],
    enter: [`${leaf}/cgroup.procs`],
    aside: { enter: `${cut}/cgroup.procs`, leave: `${leaf}/cgroup.procs`, oomKills: `${cut}/memory.events` },
    cpu: cpuMillis === undefined ? undefined : { limit: cpuMax(cpuQuotaMicroseconds(cpuMillis)), lift: cpuMax("max") },
    remove: kind === "pod" ? [leaf, cut] : [leaf, cut, base],
    removeIfEmpty: kind === "pod" ? [] : [`${parent}/${commonDirectory}`],
    // `memory.oom.group` kills the whole sandbox, which the cell notices without polling.
    mustPollForOom: false,
    memory,
    oomKills: memory && `${leaf}/memory.events`,
    refusedForks: processes === undefined ? undefined : `${leaf}/pids.events`,
    limits: { ...limits, processes: processes ?? limits.processes },
    missing: missingLimits(limits, (name) => place.controllers.includes(name)),
  };
}

/** The share, without the limits whose controller cannot be delegated. */
function enforceable({ controllers, bounds }: V2Place, limits: SandboxLimits): Partial<Share> {
  const { memory, cpuMillis, processes } = shareOf(limits, bounds);
  return {
    ...(controllers.includes("memory") && { memory }),
    ...(controllers.includes("cpu") && { cpuMillis }),
    ...(controllers.includes("pids") && { processes }),
  };
}

/** Moves the processes that run in the container into the group `cell`. */
function podSteps(base: string): Step[] {
  return [make(`${base}/cell`), { do: "move-all", from: base, to: `${base}/cell` }];
}

function machineSteps(place: V2Place, base: string): Step[] {
  const common = `${place.parent}/${commonDirectory}`;
  return [...delegateControllers(place, place.parent), make(common), ...delegateControllers(place, common), make(base)];
}

/** One controller at a time: the kernel rejects a whole list if one of them cannot be delegated. */
function delegateControllers({ controllers }: V2Place, directory: string): Step[] {
  return ["memory", "cpu", "pids"]
    .filter((name) => controllers.includes(name))
    .map((name) => write(`${directory}/cgroup.subtree_control`, `+${name}`));
}

function memorySettings(leaf: string, bytes: number): Step[] {
  return [
    write(`${leaf}/memory.max`, bytes),
    { do: "write", file: `${leaf}/memory.swap.max`, value: "0", optional: true },
    write(`${leaf}/memory.oom.group`, 1),
  ];
}
