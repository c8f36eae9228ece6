import { access } from "node:fs/promises";
import { join } from "node:path";

const programs = ["buildah", "runc", "ip", "unshare"];
const pluginDirectories = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
const plugins = ["bridge", "host-local"];

/** The directory with the CNI plugins for the Pods' network. */
export async function cniDirectory(): Promise<string | undefined> {
  for (const directory of pluginDirectories) {
    if ((await missingOf(plugins, [directory])).length === 0) return directory;
  }
  return undefined;
}

/** The requirements that this machine does not meet. */
export async function missingNeeds(): Promise<string[]> {
  const missing = await missingOf(programs, (process.env["PATH"] ?? "").split(":"));
  return [
    ...(process.getuid?.() === 0 ? [] : ["root, which a kubelet requires"]),
    ...missing,
    ...((await cniDirectory()) === undefined ? ["the CNI plugins"] : []),
  ];
}

async function missingOf(names: string[], directories: string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => isInOneOf(directories, name)));
  return names.filter((_, index) => found[index] !== true);
}

async function isInOneOf(directories: string[], name: string): Promise<boolean> {
  const found = directories.map((directory) =>
    access(join(directory, name)).then(
      () => true,
      () => false,
    ),
  );
  return (await Promise.all(found)).includes(true);
}
