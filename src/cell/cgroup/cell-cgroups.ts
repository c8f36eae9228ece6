import { readFile } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import { findPlace, type CgroupPlace } from "./find-place.ts";
import type { SandboxLimits } from "./limits.ts";
import type { CgroupPlan } from "./plan.ts";
import { planV1 } from "./plan-v1.ts";
import { planV2 } from "./plan-v2.ts";
import { writeCgroupRecord } from "./record.ts";
import { SandboxCgroup } from "./sandbox-cgroup.ts";

export interface CellCgroupsOptions {
  /** Of the Pod: names the groups. */
  uid: string;
  /** The cell's own folder, where it is put down which groups it makes. */
  directory: string;
  limits: Omit<SandboxLimits, "processes">;
  /** The bound of processes when the operator gives one. */
  processes?: number;
}

/** Kubernetes nodes bound a Pod by 1,024 to 16,384 processes; a machine's smallest `pid_max` is 32,768. */
const defaultProcesses = 8_192;

/** What one sandbox is given. */
export interface MadeLeaves {
  /** Absent when there is nothing to enforce, or no way to. */
  leaves?: SandboxCgroup;
  /** Which declared limits nothing enforces here, and why: one sentence. */
  unenforced?: string;
}

/** Gives the sandboxes of one cell, one after another, leaves of their own. */
export class CellCgroups {
  readonly #options: CellCgroupsOptions;
  readonly #declared: string[];
  /** Found once: afterwards the cell itself may be in a leaf. */
  #plan: Promise<CgroupPlan | undefined> | undefined;

  constructor(options: CellCgroupsOptions) {
    this.#options = options;
    const { memoryBytes, cpuMillis } = options.limits;
    this.#declared = [...(memoryBytes === undefined ? [] : ["memory"]), ...(cpuMillis === undefined ? [] : ["cpu"])];
  }

  /** That nothing can be done here is no error: in a Pod the kubelet's own group holds all together. */
  async make(): Promise<MadeLeaves> {
    try {
      const plan = await (this.#plan ??= this.#find());
      if (plan === undefined) return {};
      await writeCgroupRecord(this.#options.directory, plan);
      const leaves = await SandboxCgroup.make(plan);
      if (plan.missing.length === 0) return { leaves };
      const why = "the kernel does not have the controller, or nobody hands it to the cell";
      return { leaves, unenforced: sentence(plan.missing, why) };
    } catch (error) {
      if (this.#declared.length === 0) return {};
      return { unenforced: sentence(this.#declared, RametError.from(error).message) };
    }
  }

  async #find(): Promise<CgroupPlan | undefined> {
    const place = await findPlace();
    // Leaves cost some milliseconds, and nobody asked; in a Pod they keep a part of its limits for the cell.
    if (this.#declared.length === 0 && !(place.version === 2 && place.kind === "pod")) return undefined;
    return planFor(place, this.#options);
  }
}

async function planFor(place: CgroupPlace, { uid, limits, processes }: CellCgroupsOptions): Promise<CgroupPlan> {
  const all = { ...limits, processes: processes ?? (await boundOfProcesses()) };
  return place.version === 1 ? planV1(place.own, { uid, limits: all }) : planV2(place, { uid, limits: all });
}

/** At most a quarter of what the machine can number. */
async function boundOfProcesses(): Promise<number> {
  const text = await readFile("/proc/sys/kernel/pid_max", "utf8").catch(() => "");
  const machine = Number(text);
  return machine > 0 ? Math.min(defaultProcesses, Math.floor(machine / 4)) : defaultProcesses;
}

function sentence(limits: readonly string[], why: string): string {
  return `resources.limits (${limits.join(", ")}) are not enforced by the cell: ${why}`;
}
