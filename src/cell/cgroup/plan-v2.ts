import {
  type CgroupPlan,
  commonDirectory,
  cpuPeriodMicroseconds,
  cpuQuotaMicroseconds,
  type SandboxLimits,
  type Step,
} from "./plan.ts";
import { type GroupBounds, type Share, shareOf } from "./share.ts";

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
  const share = enforceable(place, limits);
  const { memory, cpuMillis, processes } = share;
  const leaf = `${base}/sandbox`;
  const cut = `${base}/cut`;
  return {
    steps: [
      ...(kind === "pod" ? podSteps(base) : machineSteps(place, base)),
      ...delegateControllers(place, base),
      make(leaf),
      ...settings(leaf, share),
      make(cut),
    ],
    enter: [`${leaf}/cgroup.procs`],
    aside: { enter: `${cut}/cgroup.procs`, leave: `${leaf}/cgroup.procs`, oomKills: `${cut}/memory.events` },
    ...(cpuMillis === undefined
      ? {}
      : {
          cpu: {
            limit: [write(`${leaf}/cpu.max`, `${cpuQuotaMicroseconds(cpuMillis)} ${cpuPeriodMicroseconds}`)],
            lift: [write(`${leaf}/cpu.max`, `max ${cpuPeriodMicroseconds}`)],
          },
        }),
    ...(kind === "pod"
      ? { remove: [leaf, cut], removeIfEmpty: [] }
      : { remove: [leaf, cut, base], removeIfEmpty: [`${parent}/${commonDirectory}`] }),
    // `memory.oom.group` kills the whole sandbox, which the cell notices without polling.
    mustPollForOom: false,
    ...(memory === undefined ? {} : { memory, oomKills: `${leaf}/memory.events` }),
    ...(processes === undefined ? {} : { refusedForks: `${leaf}/pids.events` }),
    limits: { ...limits, processes: processes ?? limits.processes },
    missing: missing(place, limits),
  };
}

/** The share, without the limits whose controller cannot be delegated. */
function enforceable({ controllers, bounds }: V2Place, limits: SandboxLimits): Partial<Share> {
  const { memory, cpuMillis, processes } = shareOf(limits, bounds);
  return {
    ...(memory !== undefined && controllers.includes("memory") && { memory }),
    ...(cpuMillis !== undefined && controllers.includes("cpu") && { cpuMillis }),
    ...(controllers.includes("pids") && { processes }),
  };
}

function missing({ controllers }: V2Place, { memoryBytes, cpuMillis }: SandboxLimits): string[] {
  return [
    ...(memoryBytes !== undefined && !controllers.includes("memory") ? ["memory"] : []),
    ...(cpuMillis !== undefined && !controllers.includes("cpu") ? ["cpu"] : []),
  ];
}

function settings(leaf: string, { memory, processes }: Partial<Share>): Step[] {
  return [
    ...(memory === undefined ? [] : memorySettings(leaf, memory.leafBytes)),
    ...(processes === undefined ? [] : [write(`${leaf}/pids.max`, processes)]),
  ];
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

function make(directory: string): Step {
  return { do: "make", directory };
}

function write(file: string, value: string | number): Step {
  return { do: "write", file, value: `${value}` };
}

function memorySettings(leaf: string, bytes: number): Step[] {
  return [
    write(`${leaf}/memory.max`, bytes),
    { do: "write", file: `${leaf}/memory.swap.max`, value: "0", optional: true },
    write(`${leaf}/memory.oom.group`, 1),
  ];
}
