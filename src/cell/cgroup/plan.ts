import type { MemoryBound, SandboxLimits } from "./limits.ts";

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
  aside?: { enter: string; leave: string };
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
