import { readFile } from "node:fs/promises";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { ContainerMemory } from "./container-memory.ts";
import { type CgroupPlace, findPlace, ownLayout } from "./place.ts";
import { planV1, planV2 } from "./plan-versions.ts";
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

export interface MadeLeaves {
  /** Undefined if there is nothing to enforce, or no way to enforce it. */
  leaves?: SandboxCgroup;
  /** The memory of the cell's own group, which bounds the sandbox and its cell together. Undefined if it has no limit. */
  container?: ContainerMemory;
  /** One sentence: which declared limits are not enforced here, and why. */
  unenforced?: string;
}

/**
 * Creates the control groups for the sandboxes of one cell. Returns no groups if none can be created here. In a Pod the kubelet's
 * group still limits all processes together. Call it once: afterwards the cell itself may be in a leaf group.
 */
export async function makeLeaves(options: CellCgroupsOptions): Promise<MadeLeaves> {
  const { memoryBytes, cpuMillis } = options.declared;
  const declared = Object.keys(defined({ memory: memoryBytes, cpu: cpuMillis }));
  const layout = await ownLayout().catch((error: unknown) => RametError.from(error));
  if (layout instanceof RametError) return unenforced(declared, layout.message);
  const container = ContainerMemory.of(layout);
  try {
    const plan = await planFor(await findPlace(layout), options);
    await writeCgroupRecord(options.directory, plan);
    const leaves = await SandboxCgroup.make(plan);
    const missing = plan.missing.filter((limit) => declared.includes(limit));
    const why = "the kernel lacks the controller, or it is not delegated to the cell";
    return { leaves, ...defined({ container }), ...unenforced(missing, why) };
  } catch (error) {
    return { ...defined({ container }), ...unenforced(declared, RametError.from(error).message) };
  }
}

/** The process limit applies also without any other, because a sandbox with any number of processes harms the machine. */
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

function unenforced(limits: readonly string[], why: string): Pick<MadeLeaves, "unenforced"> {
  if (limits.length === 0) return {};
  return { unenforced: `resources.limits (${limits.join(", ")}) are not enforced by the cell: ${why}` };
}
