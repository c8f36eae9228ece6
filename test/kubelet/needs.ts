import { access } from "node:fs/promises";
import { join } from "node:path";

const programs = ["buildah", "runc", "ip", "unshare"];
const pluginDirectories = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
const plugins = ["bridge", "host-local"];

/** Where the plugins of CNI are that give Pods their network. */
export async function cniDirectory(): Promise<string | undefined> {
  for (const directory of pluginDirectories) {
    if ((await missingOf(plugins, [directory])).length === 0) return directory;
  }
  return undefined;
}

/** What has to be on this machine and is not, each with what brings it on Debian. */
export async function missingNeeds(): Promise<string[]> {
  const missing = await missingOf(programs, (process.env["PATH"] ?? "").split(":"));
  return [
    ...(process.getuid?.() === 0 ? [] : ["root, as a kubelet has to be"]),
    ...missing,
    ...((await cniDirectory()) === undefined ? ["CNI's plugins"] : []),
  ];
}

async function missingOf(names: string[], directories: string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => isInOneOf(directories, name)));
  return names.filter((_, index) => found[index] !== true);
}

async function isInOneOf(directories: string[], name: string): Promise<boolean> {
  const looks = directories.map((directory) =>
    access(join(directory, name)).then(
      () => true,
      () => false,
    ),
  );
  return (await Promise.all(looks)).includes(true);
}
