import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { makeLeaves } from "../cgroup/cell-cgroups.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { spawnLink } from "../network/link.ts";

/** The root directory and the control groups in which the sandboxes of one cell run. */
export type SandboxResources = Awaited<ReturnType<typeof allocateResources>>;

/**
 * @param layer of the root directory
 * @throws RametError `HostUnsupported`
 */
export async function allocateResources(setting: CellSetting, layer: Promise<RootLayer>) {
  const { config, container, paths, processes } = setting;
  const [limits, declared] = [container.resources, config.container.resources];
  const own = { uid: config.sandbox.uid, directory: paths.directory, limits, declared, ...defined({ processes }) };
  const [root, cgroup] = await Promise.all([mountRoot(config.rootPath, await layer), makeLeaves(own)]);
  return { root, cgroup };
}

export async function releaseResources({ root, cgroup }: SandboxResources): Promise<void> {
  await Promise.all([cgroup.leaves?.remove(), root.remove()]);
}

const mountTimeoutMilliseconds = 10_000;

/** The directories from which a sandbox's root is mounted. */
type RootLayer = Awaited<ReturnType<typeof mountLayer>>;

/** Mounts the layer into which gVisor writes mount points. It depends on no image. @throws RametError `HostUnsupported` */
export async function mountLayer(directory: string) {
  const [path, merged] = [join(directory, "root", "layer"), join(directory, "root", "merged")];
  // `path` is the mount that has the others but `merged`, where the root will be mounted.
  const layer = { path, upper: join(path, "upper"), work: join(path, "work"), merged };
  await Promise.all([path, merged].map((made) => mkdir(made, { recursive: true })));
  await mount(["-t", "tmpfs", "-o", "size=4m,mode=0755", "ramet", path]);
  await Promise.all([layer.upper, layer.work].map((made) => mkdir(made)));
  return layer;
}

/**
 * Mounts an empty overlay layer over the template's image. gVisor creates mount points in its root directory. Here it creates
 * them in the layer, so that sandboxes can share a read-only image.
 * @throws RametError `HostUnsupported`
 */
async function mountRoot(imagePath: string, { path: layer, upper, work, merged }: RootLayer) {
  const options = [`lowerdir=${escaped(imagePath)}`, `upperdir=${escaped(upper)}`, `workdir=${escaped(work)}`];
  // In a user namespace overlayfs must keep its metadata in user attributes.
  if (hasOneUserOnly()) options.push("userxattr");
  await mount(["-t", "overlay", "-o", options.join(","), "ramet", merged]);
  return {
    path: merged,
    /** Call it when the sandbox has ended. The mounts of a killed cell end with its mount namespace. */
    remove: async () => {
      const args = ["-l", merged, layer];
      await runProgram({ program: "umount", args, timeoutMilliseconds: mountTimeoutMilliseconds });
    },
  };
}

async function mount(args: readonly string[]): Promise<void> {
  const { code, stderr } = await runProgram({ program: "mount", args, timeoutMilliseconds: mountTimeoutMilliseconds });
  if (code === 0) return;
  throw new RametError("HostUnsupported", `mounting the sandbox's root failed: ${stderr.trim()}`, {
    hint: "Use kernel 5.11 or newer with overlayfs; in a Pod, also the SYS_ADMIN capability and no default AppArmor profile",
  });
}

/** Overlayfs separates directories by colons and options by commas. */
function escaped(path: string): string {
  return path.replace(/[\\:,]/g, "\\$&");
}

/**
 * Whether the cell runs in a user namespace with a single user, which `ramet-link pod` creates for an unprivileged user
 * (user_namespaces(7)). Every new file then belongs to that user on the host, and to root in the sandbox.
 */
export function hasOneUserOnly(): boolean {
  try {
    const extents = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
    return extents.length === 1 && extents[0]?.trim().split(/\s+/)[2] === "1";
  } catch {
    return false;
  }
}

/** The parts of a sandbox's environment that are the same for every sandbox. */
export type EarlyEnvironment = ReturnType<typeof startEarly>;

interface EarlyEnvironmentOptions {
  link: string;
  directory: string;
  /** Receives the lines that link writes for the operator. */
  log: (line: string) => void;
}

/**
 * Starts what a sandbox needs and what does not depend on it, while the cell reads its setting. A failure is reported when the
 * sandbox's environment is prepared. Nothing of it outlives the cell: link ends with its input, and mounts with their namespace.
 */
export function startEarly({ link, directory, log }: EarlyEnvironmentOptions) {
  const layer = mountLayer(directory);
  // It is awaited later; until then a failure must not count as unhandled.
  layer.catch(() => undefined);
  return { link: spawnLink({ binary: link, log }), layer };
}
