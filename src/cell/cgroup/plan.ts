import type { MemoryBound, SandboxLimits } from "./limits.ts";

/** One change to the control groups' file system, done in order. */
export type Step =
  | { do: "make"; directory: string }
  | {
      do: "write";
      file: string;
      value: string;
      /** Not every kernel has the file. */
      optional?: true;
    }
  | { do: "move-all"; from: string; to: string };

/** What is to be done to give one sandbox leaves of its own. */
export interface CgroupPlan {
  steps: Step[];
  /** A process that writes 0 into each of these is in the sandbox's leaves, and with it all that it starts. */
  enter: string[];
  /** Where gVisor's own process is put while it writes a checkpoint, and where it comes back to. */
  aside?: { enter: string; leave: string };
  /** Folders that are the sandbox's alone, the deepest first. */
  remove: string[];
  /** Folders that others may use too; they go when they are empty. */
  removeIfEmpty: string[];
  /** The file in which the kernel counts processes that it ended for want of memory. */
  oomKills?: string;
  /** The kernel ends one process only and tells nobody: somebody must look. */
  mustLookForOom: boolean;
  /** The file in which the kernel counts refused forks. */
  refusedForks?: string;
  memory?: MemoryBound;
  limits: SandboxLimits;
  /** Declared limits that nothing here can enforce: the kernel or the parent group lacks the controller. */
  missing: string[];
}

/** The folder below which a machine's cells make theirs, where the parent is not a Pod's own. */
export const commonDirectory = "ramet";

/** Of 100 ms each: what the kernel and the kubelet take when nobody says otherwise. */
export const cpuPeriodMicroseconds = 100_000;

/** The kernel takes no quota under 1 ms. */
export function cpuQuotaMicroseconds(cpuMillis: number): number {
  return Math.max(1_000, Math.round((cpuMillis * cpuPeriodMicroseconds) / 1_000));
}
