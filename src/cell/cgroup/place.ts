import { access, constants, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { defined } from "../../base/defined.ts";
import { RametError, isFulfilled } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { cgroupLayout, type CgroupLayout } from "./layout.ts";
import type { V1Place, V2Place } from "./plan-versions.ts";
import { cpuPeriodMicroseconds, type GroupBounds } from "./plan.ts";

/** Where the groups of a sandbox can be created. */
export type CgroupPlace = ({ version: 1 } & V1Place) | ({ version: 2 } & V2Place);

const mountTimeoutMilliseconds = 2_000;

/** Returns the directories of the cell's own groups. @throws RametError `HostUnsupported` if none is mounted */
export async function ownLayout(): Promise<CgroupLayout> {
  const [selfCgroup, mountInfo] = await Promise.all([text("/proc/self/cgroup"), text("/proc/self/mountinfo")]);
  const layout = cgroupLayout(selfCgroup ?? "", mountInfo ?? "");
  if (layout !== undefined) return layout;
  throw unusable("no control group file system is mounted");
}

function unusable(why: string): RametError {
  return new RametError("HostUnsupported", `creating control groups failed: ${why}`);
}

/**
 * Determines where the cell can create groups. In a Pod the container's groups are mounted read-only and are made writable first,
 * which needs CAP_SYS_ADMIN outside of any user namespace.
 * @throws RametError `HostUnsupported` with the reason if there is no such place
 */
export async function findPlace(layout: CgroupLayout): Promise<CgroupPlace> {
  if (layout.version === 1) {
    const { own, contained } = layout;
    for (const controller of contained) await makeWritable(own[controller] ?? "");
    return { version: 1, own, bounds: contained.length === 0 ? {} : await boundsOfV1(own) };
  }
  const place = placeV2(layout, await filesOf(layout));
  if (place.kind === "pod") await makeWritable(layout.mount);
  return { version: 2, ...place };
}

async function makeWritable(mount: string): Promise<void> {
  if (await isWritable(mount)) return;
  const args = ["-o", "remount,bind,rw", mount];
  const result = await runProgram({ program: "mount", args, timeoutMilliseconds: mountTimeoutMilliseconds });
  if (result.code === 0 && (await isWritable(mount))) return;
  throw new RametError("HostUnsupported", `making ${mount} writable failed: ${result.stderr.trim()}`);
}

async function isWritable(directory: string): Promise<boolean> {
  return isFulfilled(access(directory, constants.W_OK));
}

/** Returns undefined if the file does not exist. The files of a group show its kind. */
async function text(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}

/** More than any machine has: how version 1 expresses that there is no limit. */
export const noLimitBytes = 2 ** 60;

async function boundsOfV1({ memory, cpu, pids }: V1Place["own"]): Promise<GroupBounds> {
  const [memoryBytes, quota, period, processes] = await Promise.all([
    text(`${memory ?? ""}/memory.limit_in_bytes`).then(numberIn),
    text(`${cpu ?? ""}/cpu.cfs_quota_us`).then(numberIn),
    text(`${cpu ?? ""}/cpu.cfs_period_us`).then(numberIn),
    text(`${pids ?? ""}/pids.max`).then(numberIn),
  ]);
  const hasLimit = memoryBytes !== undefined && memoryBytes < noLimitBytes;
  return { memoryBytes: hasLimit ? memoryBytes : undefined, cpuMillis: cpuMillisOf(quota, period), processes };
}

async function filesOf({ own, mount }: CgroupLayout & { version: 2 }): Promise<V2Files> {
  const parent = own === mount ? own : dirname(own);
  const entries = await Promise.all(
    Object.entries(v2Files).map(async ([name, file]) => [name, await text(`${own}/${file}`)] as const),
  );
  return { ...Object.fromEntries(entries), parentControllers: await text(`${parent}/cgroup.controllers`) };
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
  const bounds = boundsOfV2(files);
  if (own !== mount) {
    // The limits of the cell's group would not apply to a group next to it.
    if (Object.keys(bounds).length > 0)
      throw unusable(`the limits of the cell's group ${own} would not apply to groups next to it`);
    return { kind: "machine", parent: dirname(own), controllers, bounds: {} };
  }
  // The root of the hierarchy has no type; the root of a container's namespace has one.
  if (files.type === undefined) return { kind: "machine", parent: own, controllers, bounds: {} };
  // A process of an outer PID namespace is listed as 0.
  if (files.processes?.split("\n").includes("0") === true)
    throw unusable("the cell shares its control group with other processes");
  return { kind: "pod", parent: own, controllers, bounds };
}

/** Each file holds `max` if there is no limit. `cpu.max` holds quota and period in microseconds. */
function boundsOfV2({ memoryMax, cpuMax, pidsMax }: V2Files): GroupBounds {
  const [quota, period] = cpuMax?.trim().split(" ") ?? [];
  const cpuMillis = cpuMillisOf(numberIn(quota), numberIn(period));
  return defined({ memoryBytes: numberIn(memoryMax), cpuMillis, processes: numberIn(pidsMax) });
}

function cpuMillisOf(quota: number | undefined, period = cpuPeriodMicroseconds): number | undefined {
  return quota === undefined ? undefined : (quota * 1_000) / period;
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined;
}
