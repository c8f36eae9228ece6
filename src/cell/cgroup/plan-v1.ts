import type { SandboxLimits } from "./limits.ts";
import { controllers, type V1Controller } from "./layout.ts";
import { commonDirectory, cpuPeriodMicroseconds, cpuQuotaMicroseconds, type CgroupPlan, type Step } from "./plan.ts";

/**
 * Leaves below the cell's own groups, only where a limit asks for one: `ramet/<uid>/sandbox` and, for memory,
 * `ramet/<uid>/cut`. The cell stays where it is, which version 1 allows. The files are those of the kernel's
 * admin-guide/cgroup-v1.
 */
export function planV1(
  own: Partial<Record<V1Controller, string>>,
  { uid, limits }: { uid: string; limits: SandboxLimits },
): CgroupPlan {
  const wanted = controllers.flatMap((controller) => {
    const parent = own[controller];
    const set = parent === undefined ? undefined : settings(controller, limits);
    return parent === undefined || set === undefined
      ? []
      : [{ controller, base: `${parent}/${commonDirectory}/${uid}`, set }];
  });
  const at = (controller: V1Controller): string | undefined =>
    wanted.find((one) => one.controller === controller)?.base;
  const memory = at("memory");
  const pids = at("pids");
  const leaves = wanted.flatMap(({ controller, base }) =>
    controller === "memory" ? [`${base}/sandbox`, `${base}/cut`] : [`${base}/sandbox`],
  );
  return {
    steps: [
      ...wanted.flatMap(({ base, set }): Step[] => [
        { do: "make", directory: `${base}/sandbox` },
        ...set.map(({ file, ...rest }): Step => ({ do: "write", file: `${base}/sandbox/${file}`, ...rest })),
      ]),
      ...(memory === undefined ? [] : [{ do: "make" as const, directory: `${memory}/cut` }]),
    ],
    // `tasks` and not `cgroup.procs`: a thread that moves itself waits for nobody, a process for all its threads (3 to 5 ms).
    enter: wanted.map(({ base }) => `${base}/sandbox/tasks`),
    ...(memory === undefined
      ? {}
      : { aside: { enter: `${memory}/cut/cgroup.procs`, leave: `${memory}/sandbox/cgroup.procs` } }),
    remove: [...leaves, ...wanted.map(({ base }) => base)],
    removeIfEmpty: wanted.map(({ base }) => base.slice(0, -uid.length - 1)),
    ...(memory === undefined ? {} : { oomKills: `${memory}/sandbox/memory.oom_control` }),
    mustLookForOom: memory !== undefined,
    ...(pids === undefined ? {} : { refusedForks: `${pids}/sandbox/pids.events` }),
    ...(memory === undefined || limits.memoryBytes === undefined
      ? {}
      : { memory: { declaredBytes: limits.memoryBytes, leafBytes: limits.memoryBytes } }),
    limits,
    missing: [
      ...(limits.memoryBytes !== undefined && memory === undefined ? ["memory"] : []),
      ...(limits.cpuMillis !== undefined && at("cpu") === undefined ? ["cpu"] : []),
    ],
  };
}

interface Setting {
  file: string;
  value: string;
  optional?: true;
}

/** What is written into a controller's leaf; absent when there is nothing to limit. */
function settings(controller: V1Controller, limits: SandboxLimits): Setting[] | undefined {
  const { memoryBytes, cpuMillis, processes } = limits;
  switch (controller) {
    case "memory":
      if (memoryBytes === undefined) return undefined;
      return [
        { file: "memory.limit_in_bytes", value: `${memoryBytes}` },
        // Memory and swap together: without it a limit only makes the machine swap.
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
