import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { CellCgroups, type MadeLeaves } from "../cgroup/cell-cgroups.ts";
import type { CellSetting } from "../setting/cell-setting.ts";

/** The folder that becomes a sandbox's root. */
export interface RootDirectory {
  path: string;
  /** To be called when the sandbox is gone. What a killed cell leaves goes with its mount namespace. */
  remove(): Promise<void>;
}

const mountTimeoutMilliseconds = 10_000;

/**
 * Lays an empty layer over the template's image. gVisor makes mount points in the root that it is given; here they land
 * in the layer, so an image can be read-only and is shared by sandboxes that see nothing of one another.
 * @throws RametError `HostUnsupported`
 */
async function layRoot(imagePath: string, directory: string): Promise<RootDirectory> {
  const layer = join(directory, "root", "layer");
  await mkdir(layer, { recursive: true });
  await mount("tmpfs", layer, "size=4m,mode=0755");
  const [upper, work, path] = [join(layer, "upper"), join(layer, "work"), join(directory, "root", "merged")];
  await Promise.all([upper, work, path].map((directory) => mkdir(directory, { recursive: true })));
  const options = [`lowerdir=${escaped(imagePath)}`, `upperdir=${escaped(upper)}`, `workdir=${escaped(work)}`];
  // In a user namespace overlayfs keeps its marks in attributes that an ordinary user may write.
  await mount("overlay", path, [...options, ...(hasOneUserOnly() ? ["userxattr"] : [])].join(","));
  return {
    path,
    remove: async () => {
      await unmount(path);
      await unmount(layer);
    },
  };
}

async function mount(type: "tmpfs" | "overlay", target: string, options: string): Promise<void> {
  const { code, stderr } = await runProgram({
    program: "mount",
    args: ["-t", type, "-o", options, "ramet", target],
    timeoutMilliseconds: mountTimeoutMilliseconds,
  });
  if (code === 0) return;
  throw new RametError("HostUnsupported", `mounting the sandbox's root (${type}) failed: ${stderr.trim()}`, {
    hint: "A kernel of 5.11 or newer with overlayfs is needed, and in a Pod SYS_ADMIN without AppArmor's default profile",
  });
}

async function unmount(target: string): Promise<void> {
  const args = ["-l", target];
  await runProgram({ program: "umount", args, timeoutMilliseconds: mountTimeoutMilliseconds });
}

/** Overlayfs separates folders by colons and options by commas. */
function escaped(path: string): string {
  return path.replace(/[\\:,]/g, "\\$&");
}

/**
 * Whether the cell is in a user namespace that knows one user only, as `ramet-link pod` makes it for an ordinary user
 * (user_namespaces(7)). Every file that is made on the machine then belongs to that user, and to root in the sandbox.
 */
export function hasOneUserOnly(): boolean {
  try {
    const extents = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
    return extents.length === 1 && extents[0]?.trim().split(/\s+/)[2] === "1";
  } catch {
    return false;
  }
}

/** What the sandboxes of one cell run in, beside the network. */
export interface SandboxPlace {
  root: RootDirectory;
  cgroup: MadeLeaves;
}

/**
 * Makes it.
 * @throws RametError `HostUnsupported`
 */
export async function layPlace(setting: CellSetting): Promise<SandboxPlace> {
  const { config, container, paths, processes } = setting;
  const { directory } = paths;
  const cgroups = new CellCgroups({
    uid: config.sandbox.uid,
    directory,
    limits: container.resources,
    ...(processes !== undefined && { processes }),
  });
  const [root, cgroup] = await Promise.all([layRoot(config.rootPath, directory), cgroups.make()]);
  return { root, cgroup };
}

export async function removePlace({ root, cgroup }: SandboxPlace): Promise<void> {
  await Promise.all([cgroup.leaves?.remove(), root.remove()]);
}
