import { describe, expect, it } from "vitest";
import type { CgroupPlan } from "./plan.ts";
import { planV1, planV2, type V2Place } from "./plan-versions.ts";

const mebibyte = 1024 ** 2;
const limits = { memoryBytes: 512 * mebibyte, cpuMillis: 1500, processes: 8192 };
const v1 = { own: { memory: "/c/memory/own", cpu: "/c/cpu", pids: "/c/pids" }, bounds: {} };
const pod: V2Place = {
  kind: "pod",
  parent: "/c",
  controllers: ["cpu", "memory", "pids"],
  bounds: { memoryBytes: 512 * mebibyte, cpuMillis: 1500, processes: 1024 },
};
const machine: V2Place = {
  kind: "machine",
  parent: "/c/user.slice",
  controllers: ["cpu", "memory", "pids"],
  bounds: {},
};

/** The plan as shell commands. */
function script({ steps }: CgroupPlan): string[] {
  return steps.map((step) => {
    if (step.do === "make") return `mkdir ${step.directory}`;
    return step.do === "write" ? `${step.value} > ${step.file}` : `${step.from}/* > ${step.to}`;
  });
}

describe("planV1", () => {
  it("creates a leaf group per controller below the cell's own groups", () => {
    expect(script(planV1(v1, { uid: "u", limits }))).toEqual([
      "mkdir /c/memory/own/ramet/u/sandbox",
      "536870912 > /c/memory/own/ramet/u/sandbox/memory.limit_in_bytes",
      "536870912 > /c/memory/own/ramet/u/sandbox/memory.memsw.limit_in_bytes",
      "mkdir /c/cpu/ramet/u/sandbox",
      "100000 > /c/cpu/ramet/u/sandbox/cpu.cfs_period_us",
      "mkdir /c/pids/ramet/u/sandbox",
      "8192 > /c/pids/ramet/u/sandbox/pids.max",
      "mkdir /c/memory/own/ramet/u/cut",
    ]);
  });

  it("removes the deepest directory first, and a shared directory only if it is empty", () => {
    const { remove, removeIfEmpty } = planV1(v1, { uid: "u", limits });
    for (const [index, directory] of remove.entries())
      expect(remove.slice(index + 1).filter((later) => later.startsWith(`${directory}/`))).toEqual([]);
    expect(removeIfEmpty).toEqual(["/c/memory/own/ramet", "/c/cpu/ramet", "/c/pids/ramet"]);
  });

  it("creates groups only for declared limits, and always limits processes", () => {
    const plan = planV1(v1, { uid: "u", limits: { cpuMillis: 1, processes: 100 } });
    expect(plan.enter).toEqual(["/c/cpu/ramet/u/sandbox/tasks", "/c/pids/ramet/u/sandbox/tasks"]);
    expect(plan.cpu?.limit).toEqual([{ do: "write", file: "/c/cpu/ramet/u/sandbox/cpu.cfs_quota_us", value: "1000" }]);
    expect(plan.cpu?.lift).toEqual([{ do: "write", file: "/c/cpu/ramet/u/sandbox/cpu.cfs_quota_us", value: "-1" }]);
    expect(plan.aside).toBeUndefined();
    expect(plan.mustPollForOom).toBe(false);
  });

  it("leaves the cell its part of a Pod's limits", () => {
    const bounds = { memoryBytes: 640 * mebibyte, cpuMillis: 200, processes: 1024 };
    const plan = planV1({ ...v1, bounds }, { uid: "u", limits: { ...limits, cpuMillis: 150 } });
    expect(plan.memory).toEqual({ declaredBytes: 512 * mebibyte, leafBytes: 512 * mebibyte });
    expect(plan.cpu?.limit).toMatchObject([{ value: "10000" }]);
    expect(script(plan)).toContain("896 > /c/pids/ramet/u/sandbox/pids.max");
  });

  it("names the limits without a controller", () => {
    expect(planV1({ own: { pids: "/c/pids" }, bounds: {} }, { uid: "u", limits }).missing).toEqual(["memory", "cpu"]);
  });
});

describe("planV2", () => {
  it("reserves a group and a part of the Pod's limits for the cell", () => {
    expect(script(planV2(pod, { uid: "u", limits }))).toEqual([
      "mkdir /c/cell",
      "/c/* > /c/cell",
      "+memory > /c/cgroup.subtree_control",
      "+cpu > /c/cgroup.subtree_control",
      "+pids > /c/cgroup.subtree_control",
      "mkdir /c/sandbox",
      `${384 * mebibyte} > /c/sandbox/memory.max`,
      "0 > /c/sandbox/memory.swap.max",
      "1 > /c/sandbox/memory.oom.group",
      "896 > /c/sandbox/pids.max",
      "mkdir /c/cut",
    ]);
  });

  it("limits the CPU when the sandbox is ready, and lifts the limit before", () => {
    const file = "/c/sandbox/cpu.max";
    expect(planV2(pod, { uid: "u", limits }).cpu).toEqual({
      limit: [{ do: "write", file, value: "140000 100000" }],
      lift: [{ do: "write", file, value: "max 100000" }],
    });
  });

  it("gives a sandbox at least half of a small Pod", () => {
    const bounds = { memoryBytes: 128 * mebibyte };
    const plan = planV2({ ...pod, bounds }, { uid: "u", limits: { memoryBytes: 128 * mebibyte, processes: 8192 } });
    expect(plan.memory).toEqual({ declaredBytes: 128 * mebibyte, leafBytes: 64 * mebibyte });
  });

  it("uses the Pod's limits if the container declares none", () => {
    expect(planV2(pod, { uid: "u", limits: { processes: 8192 } }).memory).toEqual({
      declaredBytes: 512 * mebibyte,
      leafBytes: 384 * mebibyte,
    });
  });

  it("creates groups below a shared directory on a machine, with the declared limits", () => {
    const plan = planV2(machine, { uid: "u", limits });
    expect(script(plan).filter((line) => !line.includes("subtree_control"))).toEqual([
      "mkdir /c/user.slice/ramet",
      "mkdir /c/user.slice/ramet/u",
      "mkdir /c/user.slice/ramet/u/sandbox",
      `${512 * mebibyte} > /c/user.slice/ramet/u/sandbox/memory.max`,
      "0 > /c/user.slice/ramet/u/sandbox/memory.swap.max",
      "1 > /c/user.slice/ramet/u/sandbox/memory.oom.group",
      "8192 > /c/user.slice/ramet/u/sandbox/pids.max",
      "mkdir /c/user.slice/ramet/u/cut",
    ]);
    expect(plan.removeIfEmpty).toEqual(["/c/user.slice/ramet"]);
  });

  it("names the limits whose controller is not delegated", () => {
    expect(planV2({ ...machine, controllers: ["memory", "pids"] }, { uid: "u", limits }).missing).toEqual(["cpu"]);
  });
});
