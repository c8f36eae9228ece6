import type { MemoryBound, SandboxLimits } from "./plan.ts";

/** The limits of the group below which the sandbox's groups are created. */
export interface GroupBounds {
  memoryBytes?: number;
  cpuMillis?: number;
  processes?: number;
}

/** The sandbox's share of the Pod or the machine. */
export interface Share {
  memory?: MemoryBound;
  cpuMillis?: number;
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
  const memory = memoryBound(limits, bounds);
  const cpuMillis = cpuBound(limits, bounds);
  return {
    ...(memory === undefined ? {} : { memory }),
    ...(cpuMillis === undefined ? {} : { cpuMillis }),
    processes: processBound(limits, bounds),
  };
}

function memoryBound(limits: SandboxLimits, bounds: GroupBounds): MemoryBound | undefined {
  const declaredBytes = limits.memoryBytes ?? bounds.memoryBytes;
  if (declaredBytes === undefined) return undefined;
  if (bounds.memoryBytes === undefined) return { declaredBytes, leafBytes: declaredBytes };
  return { declaredBytes, leafBytes: Math.min(declaredBytes, withoutCell(bounds.memoryBytes, cellMemoryBytes)) };
}

function cpuBound(limits: SandboxLimits, bounds: GroupBounds): number | undefined {
  const declared = limits.cpuMillis ?? bounds.cpuMillis;
  if (declared === undefined || bounds.cpuMillis === undefined) return declared;
  return Math.min(declared, withoutCell(bounds.cpuMillis, cellCpuMillis));
}

function processBound(limits: SandboxLimits, bounds: GroupBounds): number {
  if (bounds.processes === undefined) return limits.processes;
  return Math.min(limits.processes, withoutCell(bounds.processes, cellProcesses));
}

/** Returns the sandbox's share, so that it reaches its limit before the cell does; at least half. */
function withoutCell(bound: number, cell: number): number {
  return Math.max(bound - cell, Math.floor(bound / 2));
}
