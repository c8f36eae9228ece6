import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { hasOneUserOnly } from "./one-user.ts";
import { runProgram } from "../../base/run-program.ts";

/** The folder that becomes a sandbox's root. */
export interface RootFolder {
  path: string;
  /** To be called when the sandbox is gone. What a killed cell leaves goes with its mount namespace. */
  remove(): Promise<void>;
}

const mountTimeoutMilliseconds = 10_000;

/** Makes the empty layer of a root, which may be done before it is known over which image. */
export async function makeLayer(directory: string): Promise<string> {
  const layer = join(directory, "root", "layer");
  await mkdir(layer, { recursive: true });
  await mount("tmpfs", layer, "size=4m,mode=0755");
  return layer;
}

/**
 * Lays an empty layer over the template's image. gVisor makes mount points in the root that it is given; here they land
 * in the layer, so an image can be read-only and is shared by sandboxes that see nothing of one another.
 * @param layer what `makeLayer` has made; it goes with the root
 * @throws RametError `HostUnsupported`
 */
export async function layRoot(imagePath: string, directory: string, layer: string): Promise<RootFolder> {
  const [upper, work, path] = [join(layer, "upper"), join(layer, "work"), join(directory, "root", "merged")];
  await Promise.all([upper, work, path].map((folder) => mkdir(folder, { recursive: true })));
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
