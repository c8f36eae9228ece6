import { controllers, type V1Controller } from "./layout.ts";
import {
  type CgroupPlan,
  commonDirectory,
  cpuPeriodMicroseconds,
  cpuQuotaMicroseconds,
  type SandboxLimits,
  type Step,
} from "./plan.ts";

/**
 * Plans leaf groups below the cell's own groups, only for declared limits: `ramet/<uid>/sandbox` and, for memory,
 * `ramet/<uid>/cut` for checkpoints. The cell stays in its own group, which version 1 allows. For the files see the kernel's
 * admin-guide/cgroup-v1.
 */
export function planV1(
  own: Partial<Record<V1Controller, string>>,
  { uid, limits }: { uid: string; limits: SandboxLimits },
): CgroupPlan {
  const leafGroups = controllers.flatMap((controller) => {
    const parent = own[controller];
    const set = parent === undefined ? undefined : settings(controller, limits);
    return parent === undefined || set === undefined
      ? []
      : [{ controller, base: `${parent}/${commonDirectory}/${uid}`, set }];
  });
  const baseOf = (controller: V1Controller): string | undefined =>
    leafGroups.find((one) => one.controller === controller)?.base;
  const memory = baseOf("memory");
  const pids = baseOf("pids");
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
      : { aside: { enter: `${memory}/cut/cgroup.procs`, leave: `${memory}/sandbox/cgroup.procs` } }),
    remove: [...leaves, ...leafGroups.map(({ base }) => base)],
    removeIfEmpty: leafGroups.map(({ base }) => base.slice(0, -uid.length - 1)),
    ...(memory === undefined ? {} : { oomKills: `${memory}/sandbox/memory.oom_control` }),
    mustPollForOom: memory !== undefined,
    ...(pids === undefined ? {} : { refusedForks: `${pids}/sandbox/pids.events` }),
    ...(memory === undefined || limits.memoryBytes === undefined
      ? {}
      : { memory: { declaredBytes: limits.memoryBytes, leafBytes: limits.memoryBytes } }),
    limits,
    missing: [
      ...(limits.memoryBytes !== undefined && memory === undefined ? ["memory"] : []),
      ...(limits.cpuMillis !== undefined && baseOf("cpu") === undefined ? ["cpu"] : []),
    ],
  };
}

interface Setting {
  file: string;
  value: string;
  optional?: true;
}

/** The settings of a controller's leaf group. Undefined if there is nothing to limit. */
function settings(controller: V1Controller, limits: SandboxLimits): Setting[] | undefined {
  const { memoryBytes, cpuMillis, processes } = limits;
  switch (controller) {
    case "memory":
      if (memoryBytes === undefined) return undefined;
      return [
        { file: "memory.limit_in_bytes", value: `${memoryBytes}` },
        // Memory plus swap. Without it the limit only makes the machine swap.
        { file: "memory.memsw.limit_in_bytes", value: `${memoryBytes}`, optional: true },
      ];
    case "cpu":
      if (cpuMillis === undefined) return undefined;
      return [
        { file: "cpu.cfs_period_us", value: `${cpuPeriodMicroseconds}` },
        { file: "cpu.cfs_quota_us", value: `${cpuQuotaMicroseconds(cpuMillis)}` },
      ];
    case "pids":
      return [{ file: "pids.max", value: `${processes}` }];
  }
}
