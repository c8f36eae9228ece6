import { bytesToQuantity } from "../../base/quantity.ts";
import { RametError } from "../../base/errors.ts";

/** One change to the control group file system. Steps are applied in order. */
export type Step =
  | { do: "make"; directory: string }
  | {
      do: "write";
      file: string;
      value: string;
      /** Not every kernel has this file. */
      optional?: true;
    }
  | { do: "move-all"; from: string; to: string };

/** How to create the leaf groups of one sandbox. */
export interface CgroupPlan {
  steps: Step[];
  /** A process that writes 0 into each of these files enters the sandbox's groups, with all processes that it starts. */
  enter: string[];
  /** The files that move gVisor's own process out of the group while it writes a checkpoint, and back. */
  aside?: { enter: string; leave: string; oomKills: string } | undefined;
  /** How to limit the CPU of the sandbox, and how to lift that limit while it starts or is captured. */
  cpu?: { limit: Step[]; lift: Step[] } | undefined;
  /** Directories that only the sandbox uses, the deepest first. */
  remove: string[];
  /** Shared directories, which are removed when they are empty. */
  removeIfEmpty: string[];
  /** The file in which the kernel counts out-of-memory kills. */
  oomKills?: string | undefined;
  /** The kernel kills a single process and sends no notification, so the count must be polled. */
  mustPollForOom: boolean;
  /** The file in which the kernel counts rejected forks. */
  refusedForks?: string | undefined;
  memory?: MemoryBound | undefined;
  limits: SandboxLimits;
  /** Declared limits that cannot be enforced: the kernel or the parent group lacks the controller. */
  missing: string[];
}

/** The directory for the groups of all cells of a machine, where the parent is not a Pod's group. */
export const commonDirectory = "ramet";

/** The default period of the kernel and the kubelet: 100 ms. */
export const cpuPeriodMicroseconds = 100_000;

/** The kernel rejects a quota below 1 ms. */
export function cpuQuotaMicroseconds(cpuMillis: number): number {
  return Math.max(1_000, Math.round((cpuMillis * cpuPeriodMicroseconds) / 1_000));
}

/** The limits of a sandbox. Undefined: unlimited. */
export interface SandboxLimits {
  memoryBytes?: number | undefined;
  cpuMillis?: number | undefined;
  /** Processes and threads on the host. gVisor needs about one for each of the sandbox's, and about 20 for itself. */
  processes: number;
}

/** The declared memory limit and the limit of the leaf group. In a Pod the cell reserves a part of the Pod's limit. */
export interface MemoryBound {
  declaredBytes: number;
  leafBytes: number;
}

/** The error for a sandbox that was killed because of its memory limit. */
export function outOfMemory({ declaredBytes, leafBytes }: MemoryBound): RametError {
  const less = leafBytes === declaredBytes ? "" : ` (${inQuantity(leafBytes)} for the sandbox, the rest for its cell)`;
  return new RametError(
    "OutOfMemory",
    `the sandbox was killed: it exceeded its memory limit of ${inQuantity(declaredBytes)}${less}`,
    { hint: "Raise the container's resources.limits.memory, or reduce its memory use" },
  );
}

/** The error for a sandbox that exceeded its process limit: gVisor exits when the host rejects a fork. */
export function tooManyProcesses(processes: number): RametError {
  return new RametError(
    "SandboxLost",
    `gVisor ended the sandbox: it exceeded its limit of ${processes} processes and threads on the node`,
    { hint: "Look for a program that keeps starting processes or threads" },
  );
}

/** Formats bytes as a Kubernetes quantity. A limit like 500M is not a whole number of KiB: it is rounded for readability. */
export function inQuantity(bytes: number): string {
  if (bytes % 1024 !== 0 && bytes >= 1024 ** 2) return `${Math.round(bytes / 1024 ** 2)}Mi`;
  return bytesToQuantity(bytes);
}

export function make(directory: string): Step {
  return { do: "make", directory };
}

export function write(file: string, value: string | number): Step {
  return { do: "write", file, value: `${value}` };
}

/** The declared limits whose controller is missing. */
export function missingLimits(
  { memoryBytes, cpuMillis }: SandboxLimits,
  has: (controller: string) => boolean,
): string[] {
  return [
    ...(memoryBytes === undefined || has("memory") ? [] : ["memory"]),
    ...(cpuMillis === undefined || has("cpu") ? [] : ["cpu"]),
  ];
}

/** The limits of the group below which the sandbox's groups are created. */
export interface GroupBounds {
  memoryBytes?: number | undefined;
  cpuMillis?: number | undefined;
  processes?: number | undefined;
}

/** The sandbox's share of the Pod or the machine. */
export interface Share {
  memory: MemoryBound | undefined;
  cpuMillis: number | undefined;
  processes: number;
}

/**
 * The resources of cell, link and a `runsc` command in addition to the sandbox. A Pod's container has it on top of the template's limit
 * (src/api/pod/cell-container.ts). Measured: 55 MiB of memory that cannot be reclaimed for cell and link, 25 MiB for the command
 * while it runs, and up to 30 MiB of buffers while a checkpoint is uploaded.
 */
const cellMemoryBytes = 128 * 1024 ** 2;
const cellCpuMillis = 100;
const cellProcesses = 128;

/** Returns the sandbox's limits: the declared ones, within the bounds that it shares with its cell. */
export function shareOf(limits: SandboxLimits, bounds: GroupBounds): Share {
  const declaredBytes = limits.memoryBytes ?? bounds.memoryBytes;
  const cpuMillis = limits.cpuMillis ?? bounds.cpuMillis;
  return {
    memory: declaredBytes === undefined ? undefined : memoryBound(declaredBytes, bounds),
    cpuMillis: cpuMillis === undefined ? undefined : within(cpuMillis, bounds.cpuMillis, cellCpuMillis),
    processes: within(limits.processes, bounds.processes, cellProcesses),
  };
}

function memoryBound(declaredBytes: number, bounds: GroupBounds): MemoryBound {
  return { declaredBytes, leafBytes: within(declaredBytes, bounds.memoryBytes, cellMemoryBytes) };
}

/** Leaves the cell its part of a bound, so that the sandbox reaches its limit before the cell does; at least half. */
function within(limit: number, bound: number | undefined, cell: number): number {
  return bound === undefined ? limit : Math.min(limit, Math.max(bound - cell, Math.floor(bound / 2)));
}
