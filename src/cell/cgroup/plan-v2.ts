import type { MemoryBound, SandboxLimits } from "./limits.ts";
import { commonDirectory, cpuPeriodMicroseconds, cpuQuotaMicroseconds, type CgroupPlan, type Step } from "./plan.ts";

/** What the cell found in the unified hierarchy. */
export interface V2Place {
  /** `pod`: the cell's own group is its container's, and it alone is in there. `machine`: leaves go under `parent`. */
  kind: "pod" | "machine";
  /** The group below which leaves are made. */
  parent: string;
  /** Controllers that `parent` can hand down. */
  controllers: readonly string[];
  /** What `parent` may use itself, as far as it is bounded. */
  bounds: { memoryBytes?: number; cpuMillis?: number; processes?: number };
}

/**
 * What the cell, link and a `runsc` command need beside the sandbox, out of the Pod's limit: measured 55 MiB that cannot be
 * reclaimed for the first two, and 25 MiB for the command while it runs.
 */
const cellMemoryBytes = 96 * 1024 ** 2;
const cellProcesses = 128;
/** The part of a Pod's CPU that the sandbox leaves: its cell must answer while it spins. */
const cellCpuShare = 0.05;

/**
 * Leaves `sandbox` and `cut` and, in a Pod, `cell` for all that is in the container so far: in version 2 a group that
 * hands controllers down has no processes of its own. The files are those of the kernel's admin-guide/cgroup-v2.
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
      ...handDown(place, base),
      make(leaf),
      ...settings(leaf, share),
      make(cut),
    ],
    enter: [`${leaf}/cgroup.procs`],
    aside: { enter: `${cut}/cgroup.procs`, leave: `${leaf}/cgroup.procs` },
    ...(kind === "pod"
      ? { remove: [leaf, cut], removeIfEmpty: [] }
      : { remove: [leaf, cut, base], removeIfEmpty: [`${parent}/${commonDirectory}`] }),
    // `memory.oom.group` ends all of the sandbox, which the cell sees without looking.
    mustLookForOom: false,
    ...(memory === undefined ? {} : { memory, oomKills: `${leaf}/memory.events` }),
    ...(processes === undefined ? {} : { refusedForks: `${leaf}/pids.events` }),
    limits: { ...limits, processes: processes ?? limits.processes },
    missing: missing(place, limits),
  };
}

/** What of the Pod's or the machine's is the sandbox's. */
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

/** All that runs in the container so far makes room. */
function podSteps(base: string): Step[] {
  return [make(`${base}/cell`), { do: "move-all", from: base, to: `${base}/cell` }];
}

function machineSteps(place: V2Place, base: string): Step[] {
  const common = `${place.parent}/${commonDirectory}`;
  return [...handDown(place, place.parent), make(common), ...handDown(place, common), make(base)];
}

/** One at a time: a group that cannot hand down one of them refuses a list as a whole. */
function handDown({ controllers }: V2Place, directory: string): Step[] {
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

/** Under the Pod's own limit by what the cell needs, so that the sandbox meets its limit first; never under half of it. */
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
