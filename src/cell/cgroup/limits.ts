import { RametError } from "../../base/errors.ts";

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
    { hint: "Raise the container's resources.limits.memory, or reduce its memory use; files that it writes count too" },
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

/** Formats bytes as a Kubernetes quantity, with the largest unit that gives a whole number. */
export function inQuantity(bytes: number): string {
  const units = ["", "Ki", "Mi", "Gi", "Ti"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // A limit like 500M is not a whole number of KiB. It is rounded for readability.
  if (unit === 0 && value >= 1024 ** 2) return `${Math.round(value / 1024 ** 2)}Mi`;
  return `${value}${units[unit] ?? ""}`;
}
