import {
  type CgroupPlan,
  commonDirectory,
  cpuPeriodMicroseconds,
  cpuQuotaMicroseconds,
  type MemoryBound,
  type SandboxLimits,
  type Step,
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
  bounds: { memoryBytes?: number; cpuMillis?: number; processes?: number };
}

/**
 * What cell, link and a `runsc` command need in addition to the sandbox, from the Pod's limit. Measured: 55 MiB of memory that
 * cannot be reclaimed for cell and link, and 25 MiB for the command while it runs.
 */
const cellMemoryBytes = 96 * 1024 ** 2;
const cellProcesses = 128;
/** The share of a Pod's CPU for the cell, which must respond while the sandbox uses all of the rest. */
const cellCpuShare = 0.05;

/**
 * Plans the leaf groups `sandbox`, `cut` (for checkpoints) and, in a Pod, `cell` for the processes already in the container: in
 * version 2 a group that delegates controllers has no processes. For the files see the kernel's admin-guide/cgroup-v2.
 */
export function planV2(place: V2Place, { uid, limits }: { uid: string; limits: SandboxLimits }): CgroupPlan {
  const { kind, parent } = place;
  const base = kind === "pod" ? parent : `${parent}/${commonDirectory}/${uid}`;
  const share = shareOf(place, limits);
  const { memory, processes } = share;
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
    aside: { enter: `${cut}/cgroup.procs`, leave: `${leaf}/cgroup.procs` },
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

/** The sandbox's share of the Pod or the machine. */
interface Share {
  memory?: MemoryBound;
  cpuMillis?: number;
  processes?: number;
}

function shareOf({ controllers, bounds }: V2Place, limits: SandboxLimits): Share {
  const memory = controllers.includes("memory") ? memoryBound(limits, bounds) : undefined;
  const cpuMillis = controllers.includes("cpu") ? cpuBound(limits, bounds) : undefined;
  return {
    ...(memory === undefined ? {} : { memory }),
    ...(cpuMillis === undefined ? {} : { cpuMillis }),
    ...(controllers.includes("pids") ? { processes: processBound(limits, bounds) } : {}),
  };
}

function missing({ controllers }: V2Place, { memoryBytes, cpuMillis }: SandboxLimits): string[] {
  return [
    ...(memoryBytes !== undefined && !controllers.includes("memory") ? ["memory"] : []),
    ...(cpuMillis !== undefined && !controllers.includes("cpu") ? ["cpu"] : []),
  ];
}

function settings(leaf: string, { memory, cpuMillis, processes }: Share): Step[] {
  return [
    ...(memory === undefined ? [] : memorySettings(leaf, memory.leafBytes)),
    ...(cpuMillis === undefined
      ? []
      : [write(`${leaf}/cpu.max`, `${cpuQuotaMicroseconds(cpuMillis)} ${cpuPeriodMicroseconds}`)]),
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

/** The Pod's limit minus what the cell needs, so that the sandbox reaches its limit first; at least half of the Pod's limit. */
function memoryBound(limits: SandboxLimits, bounds: V2Place["bounds"]): MemoryBound | undefined {
  const declaredBytes = limits.memoryBytes ?? bounds.memoryBytes;
  if (declaredBytes === undefined) return undefined;
  if (bounds.memoryBytes === undefined) return { declaredBytes, leafBytes: declaredBytes };
  const room = Math.max(bounds.memoryBytes - cellMemoryBytes, Math.floor(bounds.memoryBytes / 2));
  return { declaredBytes, leafBytes: Math.min(declaredBytes, room) };
}

function cpuBound(limits: SandboxLimits, bounds: V2Place["bounds"]): number | undefined {
  const declared = limits.cpuMillis ?? bounds.cpuMillis;
  if (declared === undefined || bounds.cpuMillis === undefined) return declared;
  return Math.min(declared, bounds.cpuMillis * (1 - cellCpuShare));
}

function processBound(limits: SandboxLimits, bounds: V2Place["bounds"]): number {
  if (bounds.processes === undefined) return limits.processes;
  return Math.min(limits.processes, Math.max(bounds.processes - cellProcesses, Math.floor(bounds.processes / 2)));
}
