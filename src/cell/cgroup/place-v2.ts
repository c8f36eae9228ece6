import { dirname } from "node:path";
import { RametError } from "../../base/errors.ts";
import type { CgroupLayout } from "./layout.ts";
import { cpuPeriodMicroseconds } from "./plan.ts";
import type { V2Place } from "./plan-v2.ts";

/** The files of the cell's own group that tell what can be done, by the names under which `placeV2` takes their text. */
export const v2Files = {
  type: "cgroup.type",
  processes: "cgroup.procs",
  memoryMax: "memory.max",
  cpuMax: "cpu.max",
  pidsMax: "pids.max",
} as const;

export type V2Files = Partial<Record<keyof typeof v2Files | "parentControllers", string | undefined>>;

/**
 * Where leaves can be made in the unified hierarchy: in the cell's own group when that is a container's and the cell is
 * alone in it, else beside its own group.
 * @throws RametError `HostUnsupported`
 */
export function placeV2({ own, mount }: CgroupLayout & { version: 2 }, files: V2Files): V2Place {
  const controllers = files.parentControllers?.trim().split(/\s+/) ?? [];
  const bounds = boundsOf(files);
  if (own !== mount) {
    // A group beside the cell's own would be out of reach of the bounds that somebody gave to the cell's.
    if (Object.keys(bounds).length > 0)
      throw new RametError(
        "HostUnsupported",
        `the cell's own group ${own} has limits, which leaves beside it would leave`,
      );
    return { kind: "machine", parent: dirname(own), controllers, bounds: {} };
  }
  // The hierarchy's true root has no type; the root of a container's namespace has one.
  if (files.type === undefined) return { kind: "machine", parent: own, controllers, bounds: {} };
  // A process of an outer PID namespace shows as 0.
  if (files.processes?.split("\n").includes("0") === true)
    throw new RametError("HostUnsupported", "the cell shares its control group with processes that are not its own");
  return { kind: "pod", parent: own, controllers, bounds };
}

/** Each file has `max` where there is no bound; `cpu.max` is quota and period in microseconds. */
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
