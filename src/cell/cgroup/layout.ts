import { type Mount, parseMounts } from "../../base/machine.ts";

/** The directories of the cell's own control groups. */
export type CgroupLayout =
  | {
      version: 1;
      own: Partial<Record<V1Controller, string>>;
      /** The controllers whose mount shows only the cell's own group: that of its container. */
      contained: V1Controller[];
    }
  | {
      version: 2;
      /** The mount point of the hierarchy, and the cell's directory in it. */
      mount: string;
      own: string;
    };

export const controllers = ["memory", "cpu", "pids"] as const;
export type V1Controller = (typeof controllers)[number];

/**
 * Reads `/proc/self/cgroup` (cgroups(7)) and `/proc/self/mountinfo` (proc_pid_mountinfo(5)). A machine with both versions
 * counts as version 1 if that has any of the controllers. Returns undefined if the cell sees no control groups.
 */
export function cgroupLayout(selfCgroup: string, mountInfo: string): CgroupLayout | undefined {
  const mounts = visible(parseMounts(mountInfo));
  const lines = selfCgroup.split("\n").flatMap(membershipOfLine);
  return layoutV1(lines, mounts) ?? layoutV2(lines, mounts);
}

function layoutV1(lines: readonly Membership[], mounts: readonly Mount[]): CgroupLayout | undefined {
  const own: Partial<Record<V1Controller, string>> = {};
  const contained: V1Controller[] = [];
  for (const controller of controllers) {
    const path = lines.find(({ controllers: names }) => names.includes(controller))?.path;
    const mount = mounts.find(({ type, options }) => type === "cgroup" && options.includes(controller));
    const directory = path === undefined || mount === undefined ? undefined : directoryOf(mount, path);
    if (mount === undefined || directory === undefined) continue;
    own[controller] = directory;
    if (directory === mount.target && (mount.root !== "/" || mount.isReadOnly)) contained.push(controller);
  }
  return Object.keys(own).length === 0 ? undefined : { version: 1, own, contained };
}

function layoutV2(lines: readonly Membership[], mounts: readonly Mount[]): CgroupLayout | undefined {
  const unified = lines.find(({ hierarchy }) => hierarchy === "0")?.path;
  const mount = mounts.find(({ type }) => type === "cgroup2");
  if (unified === undefined || mount === undefined) return undefined;
  const own = directoryOf(mount, unified);
  return own === undefined ? undefined : { version: 2, mount: mount.target, own };
}

/** Without mounts that a later one at the same place hides. */
function visible(mounts: readonly Mount[]): Mount[] {
  return mounts.filter(({ target }, index) => !mounts.slice(index + 1).some((later) => later.target === target));
}

interface Membership {
  hierarchy: string;
  controllers: string[];
  path: string;
}

function membershipOfLine(line: string): Membership[] {
  const match = /^(\d+):([^:]*):(\/.*)$/.exec(line);
  if (match === null) return [];
  const [, hierarchy = "", names = "", path = ""] = match;
  return [{ hierarchy, controllers: names.split(","), path }];
}

/** Returns undefined for a path outside the mount (`/../x` in a separate namespace). */
function directoryOf({ root, target }: Mount, path: string): string | undefined {
  if (path.startsWith("/..")) return undefined;
  const prefix = root === "/" ? "" : root;
  if (path !== prefix && !path.startsWith(`${prefix}/`)) return undefined;
  return `${target}${path.slice(prefix.length)}`.replace(/\/$/, "");
}
