import { controllers, type V1Controller } from "./layout.ts";
import {
  type CgroupPlan,
  commonDirectory,
  cpuPeriodMicroseconds,
  cpuQuotaMicroseconds,
  type SandboxLimits,
  type Step,
} from "./plan.ts";
import { type GroupBounds, type Share, shareOf } from "./share.ts";

/** Where groups can be created in the hierarchies of version 1: below the cell's own groups. */
export interface V1Place {
  own: Partial<Record<V1Controller, string>>;
  /** The limits of a Pod's container. Empty on a machine, where the cell's group is also that of other cells. */
  bounds: GroupBounds;
}

/**
 * Plans leaf groups below the cell's own groups, only where there is something to limit: `ramet/<uid>/sandbox` and, for memory,
 * `ramet/<uid>/cut` for checkpoints. The cell stays in its own group, which version 1 allows. For the files see the kernel's
 * admin-guide/cgroup-v1.
 */
export function planV1({ own, bounds }: V1Place, { uid, limits }: { uid: string; limits: SandboxLimits }): CgroupPlan {
  const share = shareOf(limits, bounds);
  const leafGroups = controllers.flatMap((controller) => {
    const parent = own[controller];
    const set = parent === undefined ? undefined : settings(controller, share);
    return parent === undefined || set === undefined
      ? []
      : [{ controller, base: `${parent}/${commonDirectory}/${uid}`, set }];
  });
  const baseOf = (controller: V1Controller): string | undefined =>
    leafGroups.find((one) => one.controller === controller)?.base;
  const [memory, cpu, pids] = [baseOf("memory"), baseOf("cpu"), baseOf("pids")];
  const leaves = leafGroups.flatMap(({ controller, base }) =>
    controller === "memory" ? [`${base}/sandbox`, `${base}/cut`] : [`${base}/sandbox`],
  );
  return {
    steps: [
      ...leafGroups.flatMap(({ base, set }): Step[] => [
        { do: "make", directory: `${base}/sandbox` },
        ...set.map(({ file, ...rest }): Step => ({ do: "write", file: `${base}/sandbox/${file}`, ...rest })),
      ]),
      ...(memory === undefined ? [] : [{ do: "make" as const, directory: `${memory}/cut` }]),
    ],
    // A thread moves itself through `tasks` immediately; through `cgroup.procs` it waits for all threads (3 to 5 ms).
    enter: leafGroups.map(({ base }) => `${base}/sandbox/tasks`),
    ...(memory === undefined
      ? {}
      : {
          aside: {
            enter: `${memory}/cut/cgroup.procs`,
            leave: `${memory}/sandbox/cgroup.procs`,
            oomKills: `${memory}/cut/memory.oom_control`,
          },
        }),
    ...cpuSteps(cpu, share),
    remove: [...leaves, ...leafGroups.map(({ base }) => base)],
    removeIfEmpty: leafGroups.map(({ base }) => base.slice(0, -uid.length - 1)),
    ...(memory === undefined ? {} : { oomKills: `${memory}/sandbox/memory.oom_control` }),
    mustPollForOom: memory !== undefined,
    ...(pids === undefined ? {} : { refusedForks: `${pids}/sandbox/pids.events` }),
    ...(memory === undefined || share.memory === undefined ? {} : { memory: share.memory }),
    limits: { ...limits, processes: share.processes },
    missing: [
      ...(limits.memoryBytes !== undefined && memory === undefined ? ["memory"] : []),
      ...(limits.cpuMillis !== undefined && cpu === undefined ? ["cpu"] : []),
    ],
  };
}

function cpuSteps(base: string | undefined, { cpuMillis }: Share): Pick<CgroupPlan, "cpu"> {
  if (base === undefined || cpuMillis === undefined) return {};
  return { cpu: { limit: [quota(base, cpuQuotaMicroseconds(cpuMillis))], lift: [quota(base, -1)] } };
}

/** -1: no limit. */
function quota(base: string, microseconds: number): Step {
  return { do: "write", file: `${base}/sandbox/cpu.cfs_quota_us`, value: `${microseconds}` };
}

interface Setting {
  file: string;
  value: string;
  optional?: true;
}

/** The settings of a controller's leaf group. Undefined if there is nothing to limit. */
function settings(controller: V1Controller, { memory, cpuMillis, processes }: Share): Setting[] | undefined {
  switch (controller) {
    case "memory":
      if (memory === undefined) return undefined;
      return [
        { file: "memory.limit_in_bytes", value: `${memory.leafBytes}` },
        // Memory plus swap. Without it the limit only makes the machine swap.
        { file: "memory.memsw.limit_in_bytes", value: `${memory.leafBytes}`, optional: true },
      ];
    case "cpu":
      if (cpuMillis === undefined) return undefined;
      return [{ file: "cpu.cfs_period_us", value: `${cpuPeriodMicroseconds}` }];
    case "pids":
      return [{ file: "pids.max", value: `${processes}` }];
  }
}
