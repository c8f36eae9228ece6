import { access, constants, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { cgroupLayout, type CgroupLayout } from "./layout.ts";
import { placeV2, v2Files, type V2Files } from "./place-v2.ts";
import type { V2Place } from "./plan-v2.ts";

/** Where leaves for a sandbox can be made. */
export type CgroupPlace = { version: 1; own: (CgroupLayout & { version: 1 })["own"] } | ({ version: 2 } & V2Place);

const mountTimeoutMilliseconds = 2_000;

/**
 * Looks where the cell may make leaves. In a Pod the unified hierarchy is mounted read-only and is made writable first,
 * which takes CAP_SYS_ADMIN outside of any user namespace.
 * @throws RametError `HostUnsupported` saying why there is no such place
 */
export async function findPlace(): Promise<CgroupPlace> {
  const [selfCgroup, mountInfo] = await Promise.all([text("/proc/self/cgroup"), text("/proc/self/mountinfo")]);
  const layout = cgroupLayout(selfCgroup ?? "", mountInfo ?? "");
  if (layout === undefined) throw new RametError("HostUnsupported", "no control group file system is mounted here");
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
  throw new RametError("HostUnsupported", `${mount} is read-only and stays so: ${result.stderr.trim()}`);
}

async function isWritable(folder: string): Promise<boolean> {
  return access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
}

/** Absent when there is no such file: which files a group has tells what it is. */
async function text(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}
