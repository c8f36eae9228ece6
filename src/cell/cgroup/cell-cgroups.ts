import { access, constants, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { cgroupLayout, type CgroupLayout } from "./layout.ts";
import { planV1 } from "./plan-v1.ts";
import { planV2, type V2Place } from "./plan-v2.ts";
import { type CgroupPlan, cpuPeriodMicroseconds, type SandboxLimits } from "./plan.ts";
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
    return planFor(await findPlace(), this.#options);
  }
}

async function planFor(place: CgroupPlace, { uid, limits, processes }: CellCgroupsOptions): Promise<CgroupPlan> {
  const all = { ...limits, processes: processes ?? (await processLimit()) };
  return place.version === 1 ? planV1(place.own, { uid, limits: all }) : planV2(place, { uid, limits: all });
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

/** Where the groups of a sandbox can be created. */
type CgroupPlace = { version: 1; own: (CgroupLayout & { version: 1 })["own"] } | ({ version: 2 } & V2Place);

const mountTimeoutMilliseconds = 2_000;

/**
 * Determines where the cell can create groups. In a Pod the unified hierarchy is mounted read-only and is made writable first,
 * which needs CAP_SYS_ADMIN outside of any user namespace.
 * @throws RametError `HostUnsupported` with the reason if there is no such place
 */
async function findPlace(): Promise<CgroupPlace> {
  const [selfCgroup, mountInfo] = await Promise.all([text("/proc/self/cgroup"), text("/proc/self/mountinfo")]);
  const layout = cgroupLayout(selfCgroup ?? "", mountInfo ?? "");
  if (layout === undefined)
    throw new RametError("HostUnsupported", "creating control groups failed: no control group file system is mounted");
  if (layout.version === 1) return layout;
  const place = placeV2(layout, await filesOf(layout));
  if (place.kind === "pod") await makeWritable(layout.mount);
  return { version: 2, ...place };
}

async function filesOf({ own, mount }: CgroupLayout & { version: 2 }): Promise<V2Files> {
  const parent = own === mount ? own : dirname(own);
  const entries = await Promise.all(
    Object.entries(v2Files).map(async ([name, file]) => [name, await text(`${own}/${file}`)] as const),
  );
  return { ...Object.fromEntries(entries), parentControllers: await text(`${parent}/cgroup.controllers`) };
}

async function makeWritable(mount: string): Promise<void> {
  if (await isWritable(mount)) return;
  const args = ["-o", "remount,bind,rw", mount];
  const result = await runProgram({ program: "mount", args, timeoutMilliseconds: mountTimeoutMilliseconds });
  if (result.code === 0 && (await isWritable(mount))) return;
  throw new RametError("HostUnsupported", `making ${mount} writable failed: ${result.stderr.trim()}`);
}

async function isWritable(directory: string): Promise<boolean> {
  return access(directory, constants.W_OK).then(
    () => true,
    () => false,
  );
}

/** Returns undefined if the file does not exist. The files of a group show its kind. */
async function text(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}

/** The files of the cell's own group that `placeV2` reads. */
const v2Files = {
  type: "cgroup.type",
  processes: "cgroup.procs",
  memoryMax: "memory.max",
  cpuMax: "cpu.max",
  pidsMax: "pids.max",
} as const;

type V2Files = Partial<Record<keyof typeof v2Files | "parentControllers", string | undefined>>;

/**
 * Determines where groups can be created in the unified hierarchy: in the cell's own group if that is a container's and holds
 * only the cell, else next to the cell's group.
 * @throws RametError `HostUnsupported`
 */
export function placeV2({ own, mount }: CgroupLayout & { version: 2 }, files: V2Files): V2Place {
  const controllers = files.parentControllers?.trim().split(/\s+/) ?? [];
  const bounds = boundsOf(files);
  if (own !== mount) {
    // The limits of the cell's group would not apply to a group next to it.
    if (Object.keys(bounds).length > 0)
      throw new RametError(
        "HostUnsupported",
        `creating control groups failed: the limits of the cell's group ${own} would not apply to groups next to it`,
      );
    return { kind: "machine", parent: dirname(own), controllers, bounds: {} };
  }
  // The root of the hierarchy has no type; the root of a container's namespace has one.
  if (files.type === undefined) return { kind: "machine", parent: own, controllers, bounds: {} };
  // A process of an outer PID namespace is listed as 0.
  if (files.processes?.split("\n").includes("0") === true)
    throw new RametError(
      "HostUnsupported",
      "creating control groups failed: the cell shares its control group with other processes",
    );
  return { kind: "pod", parent: own, controllers, bounds };
}

/** Each file holds `max` if there is no limit. `cpu.max` holds quota and period in microseconds. */
function boundsOf({ memoryMax, cpuMax, pidsMax }: V2Files): V2Place["bounds"] {
  const memoryBytes = numberIn(memoryMax);
  const processes = numberIn(pidsMax);
  const [quota, period] = cpuMax?.trim().split(" ") ?? [];
  const quotaMicroseconds = numberIn(quota);
  return {
    ...(memoryBytes === undefined ? {} : { memoryBytes }),
    ...(processes === undefined ? {} : { processes }),
    ...(quotaMicroseconds === undefined
      ? {}
      : { cpuMillis: (quotaMicroseconds * 1_000) / (numberIn(period) ?? cpuPeriodMicroseconds) }),
  };
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined;
}
