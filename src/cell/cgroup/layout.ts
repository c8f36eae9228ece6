/** The directories of the cell's own control groups. */
export type CgroupLayout =
  | { version: 1; own: Partial<Record<V1Controller, string>> }
  | {
      version: 2;
      /** The mount point of the hierarchy, and the cell's directory in it. */
      mount: string;
      own: string;
    };

/** The controllers that limit a sandbox. */
export const controllers = ["memory", "cpu", "pids"] as const;
export type V1Controller = (typeof controllers)[number];

/**
 * Reads `/proc/self/cgroup` (cgroups(7)) and `/proc/self/mountinfo` (proc_pid_mountinfo(5)). A machine with both versions
 * counts as version 1 if that has any of the controllers. Returns undefined if the cell sees no control groups.
 */
export function cgroupLayout(selfCgroup: string, mountInfo: string): CgroupLayout | undefined {
  const mounts = mountInfo.split("\n").flatMap(mountOfLine);
  const lines = selfCgroup.split("\n").flatMap(membershipOfLine);
  const own: Partial<Record<V1Controller, string>> = {};
  for (const controller of controllers) {
    const path = lines.find(({ controllers: names }) => names.includes(controller))?.path;
    const mount = mounts.find(({ type, options }) => type === "cgroup" && options.includes(controller));
    const directory = path === undefined || mount === undefined ? undefined : directoryOf(mount, path);
    if (directory !== undefined) own[controller] = directory;
  }
  if (Object.keys(own).length > 0) return { version: 1, own };
  const unified = lines.find(({ hierarchy }) => hierarchy === "0")?.path;
  const mount = mounts.find(({ type }) => type === "cgroup2");
  const directory = unified === undefined || mount === undefined ? undefined : directoryOf(mount, unified);
  return mount === undefined || directory === undefined
    ? undefined
    : { version: 2, mount: mount.target, own: directory };
}

interface Mount {
  /** The directory of the hierarchy that is mounted. */
  root: string;
  target: string;
  type: string;
  /** The file system's options. For version 1 they include its controllers. */
  options: string[];
}

function mountOfLine(line: string): Mount[] {
  const [before, after] = line.split(" - ");
  const [, , , root, target] = before?.split(" ") ?? [];
  const [type, , options] = after?.split(" ") ?? [];
  if (root === undefined || target === undefined || type === undefined) return [];
  return [{ root: unescaped(root), target: unescaped(target), type, options: options?.split(",") ?? [] }];
}

function membershipOfLine(line: string): { hierarchy: string; controllers: string[]; path: string }[] {
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

/** In mountinfo, spaces and similar characters are octal escapes. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
