import { RametError } from "../../base/errors.ts";

/** What a sandbox may use. Absent: as much as there is. */
export interface SandboxLimits {
  memoryBytes?: number | undefined;
  cpuMillis?: number | undefined;
  /** Processes and threads on the host. gVisor needs about one for each of the sandbox's own, and some twenty for itself. */
  processes: number;
}

/** What a sandbox asked for, and what its leaf is really given: in a Pod the cell needs a part of the Pod's own limit. */
export interface MemoryBound {
  declaredBytes: number;
  leafBytes: number;
}

/** Why a sandbox that broke its memory limit was ended. */
export function outOfMemory({ declaredBytes, leafBytes }: MemoryBound): RametError {
  const less =
    leafBytes === declaredBytes ? "" : ` (${inQuantity(leafBytes)} of it for the sandbox, the rest for its cell)`;
  return new RametError(
    "OutOfMemory",
    `the sandbox used more than its memory limit of ${inQuantity(declaredBytes)}${less}, so it was ended`,
    { hint: "Give the container a higher resources.limits.memory, or let it use less; files it writes count too" },
  );
}

/** Why a sandbox that broke its bound of processes was ended: gVisor cannot refuse a fork that the host refuses. */
export function tooManyProcesses(processes: number): RametError {
  return new RametError(
    "SandboxLost",
    `the sandbox had more than the ${processes} processes and threads that it may have on its node, so gVisor ended it`,
    { hint: "Look for a program that starts others without end" },
  );
}

/** Bytes as a Kubernetes quantity, with the largest unit that leaves a whole number. */
export function inQuantity(bytes: number): string {
  const units = ["", "Ki", "Mi", "Gi", "Ti"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // A limit like 500M is no whole number of KiB; a person wants it in round ones.
  if (unit === 0 && value >= 1024 ** 2) return `${Math.round(value / 1024 ** 2)}Mi`;
  return `${value}${units[unit] ?? ""}`;
}
