import { readFile } from "node:fs/promises";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { ContainerMemory } from "./container-memory.ts";
import { type CgroupPlace, findPlace, ownLayout } from "./place.ts";
import { planV1 } from "./plan-v1.ts";
import { planV2 } from "./plan-v2.ts";
import type { CgroupPlan, SandboxLimits } from "./plan.ts";
import { writeCgroupRecord } from "./record.ts";
import { SandboxCgroup } from "./sandbox-cgroup.ts";

export interface CellCgroupsOptions {
  /** The Pod's UID, which names the groups. */
  uid: string;
  /** The cell's directory, in which the created groups are recorded. */
  directory: string;
  limits: Omit<SandboxLimits, "processes">;
  /** The limits that the Pod's container declares. The others are defaults, and it is no fault if they cannot be enforced. */
  declared: Omit<SandboxLimits, "processes">;
  /** The process limit, if the operator sets one. */
  processes?: number;
}

/** Kubernetes nodes limit a Pod to 1,024 to 16,384 processes; the smallest `pid_max` of a machine is 32,768. */
const defaultProcesses = 8_192;

/** The groups of one sandbox. */
export interface MadeLeaves {
  /** Undefined if there is nothing to enforce, or no way to enforce it. */
  leaves?: SandboxCgroup;
  /** The memory of the cell's own group, which bounds the sandbox and its cell together. Undefined if it has no limit. */
  container?: ContainerMemory;
  /** One sentence: which declared limits are not enforced here, and why. */
  unenforced?: string;
}

/** Creates the control groups for the sandboxes of one cell. */
export class CellCgroups {
  readonly #options: CellCgroupsOptions;
  readonly #declared: string[];
  /** Determined once: afterwards the cell itself may be in a leaf group. */
  #plan: Promise<CgroupPlan> | undefined;

  constructor(options: CellCgroupsOptions) {
    this.#options = options;
    const { memoryBytes, cpuMillis } = options.declared;
    this.#declared = [...(memoryBytes === undefined ? [] : ["memory"]), ...(cpuMillis === undefined ? [] : ["cpu"])];
  }

  /** Returns no groups if none can be created here. In a Pod the kubelet's group still limits all processes together. */
  async make(): Promise<MadeLeaves> {
    const container = await ownLayout().then(
      (layout) => ContainerMemory.of(layout),
      () => undefined,
    );
    return { ...(await this.#makeLeaves()), ...defined({ container }) };
  }

  async #makeLeaves(): Promise<MadeLeaves> {
    try {
      const plan = await (this.#plan ??= this.#find());
      await writeCgroupRecord(this.#options.directory, plan);
      const leaves = await SandboxCgroup.make(plan);
      const missing = plan.missing.filter((limit) => this.#declared.includes(limit));
      if (missing.length === 0) return { leaves };
      const why = "the kernel lacks the controller, or it is not delegated to the cell";
      return { leaves, unenforced: sentence(missing, why) };
    } catch (error) {
      if (this.#declared.length === 0) return {};
      return { unenforced: sentence(this.#declared, RametError.from(error).message) };
    }
  }

  /** Also without any other limit, because a sandbox with any number of processes harms the machine. */
  async #find(): Promise<CgroupPlan> {
    return planFor(await findPlace(await ownLayout()), this.#options);
  }
}

async function planFor(place: CgroupPlace, { uid, limits, processes }: CellCgroupsOptions): Promise<CgroupPlan> {
  const all = { ...limits, processes: processes ?? (await processLimit()) };
  return place.version === 1 ? planV1(place, { uid, limits: all }) : planV2(place, { uid, limits: all });
}

/** At most a quarter of the machine's `pid_max`. */
async function processLimit(): Promise<number> {
  const text = await readFile("/proc/sys/kernel/pid_max", "utf8").catch(() => "");
  const machine = Number(text);
  return machine > 0 ? Math.min(defaultProcesses, Math.floor(machine / 4)) : defaultProcesses;
}

function sentence(limits: readonly string[], why: string): string {
  return `resources.limits (${limits.join(", ")}) are not enforced by the cell: ${why}`;
}
