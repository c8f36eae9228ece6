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
  aside?: { enter: string; leave: string; oomKills: string };
  /** How to limit the CPU of the sandbox, and how to lift that limit while it starts or is captured. */
  cpu?: { limit: Step[]; lift: Step[] };
  /** Directories that only the sandbox uses, the deepest first. */
  remove: string[];
  /** Shared directories, which are removed when they are empty. */
  removeIfEmpty: string[];
  /** The file in which the kernel counts out-of-memory kills. */
  oomKills?: string;
  /** The kernel kills a single process and sends no notification, so the count must be polled. */
  mustPollForOom: boolean;
  /** The file in which the kernel counts rejected forks. */
  refusedForks?: string;
  memory?: MemoryBound;
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

/** Formats bytes as a Kubernetes quantity. A limit like 500M is not a whole number of KiB: it is rounded for readability. */
export function inQuantity(bytes: number): string {
  if (bytes % 1024 !== 0 && bytes >= 1024 ** 2) return `${Math.round(bytes / 1024 ** 2)}Mi`;
  return bytesToQuantity(bytes);
}
