import { join } from "node:path";
import { defined } from "../../base/defined.ts";
import { makeLeaves } from "../cgroup/cell-cgroups.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { RootDirectories } from "./root-directories.ts";

/** The root directories and the control groups in which the sandboxes of one cell run. */
export type SandboxResources = Awaited<ReturnType<typeof allocateResources>>;

/** @throws RametError `HostUnsupported` */
export async function allocateResources(setting: CellSetting) {
  const { config, container, paths, processes } = setting;
  const [limits, declared] = [container.resources, config.container.resources];
  const own = { uid: config.sandbox.uid, directory: paths.directory, limits, declared, ...defined({ processes }) };
  const roots = new RootDirectories({
    directory: join(paths.directory, "root"),
    imagePath: config.rootPath,
    link: paths.link,
    inMemory: config.layerInMemory === true,
  });
  const [cgroup] = await Promise.all([makeLeaves(own), roots.prepare()]);
  return { roots, cgroup };
}

export async function releaseResources({ roots, cgroup }: SandboxResources): Promise<void> {
  await Promise.all([cgroup.leaves?.remove(), roots.remove()]);
}
