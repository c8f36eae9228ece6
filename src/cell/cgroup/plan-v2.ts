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
