import { access } from "node:fs/promises";
import { join } from "node:path";

const programs = ["buildah", "runc", "ip", "unshare"];
const pluginFolders = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
const plugins = ["bridge", "host-local"];

/** Where the plugins of CNI are that give Pods their network. */
export async function cniFolder(): Promise<string | undefined> {
  for (const folder of pluginFolders) {
    if ((await missingOf(plugins, [folder])).length === 0) return folder;
  }
  return undefined;
}

/** What has to be on this machine and is not, each with what brings it on Debian. */
export async function missingNeeds(): Promise<string[]> {
  const missing = await missingOf(programs, (process.env["PATH"] ?? "").split(":"));
  return [
    ...(process.getuid?.() === 0 ? [] : ["root, as a kubelet has to be"]),
    ...missing,
    ...((await cniFolder()) === undefined ? ["CNI's plugins"] : []),
  ];
}

async function missingOf(names: string[], folders: string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => isInOneOf(folders, name)));
  return names.filter((_, index) => found[index] !== true);
}

async function isInOneOf(folders: string[], name: string): Promise<boolean> {
  const looks = folders.map((folder) =>
    access(join(folder, name)).then(
      () => true,
      () => false,
    ),
  );
  return (await Promise.all(looks)).includes(true);
}
