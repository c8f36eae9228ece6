import type { CellSetting } from "../setting/cell-setting.ts";
import { CellCgroups, type MadeLeaves } from "../cgroup/cell-cgroups.ts";
import { layRoot, type RootFolder } from "./root-directory.ts";

/** What the sandboxes of one cell run in, beside the network. */
export interface SandboxPlace {
  root: RootFolder;
  cgroup: MadeLeaves;
}

/**
 * Makes it.
 * @param layer what `makeLayer` makes
 * @throws RametError `HostUnsupported`
 */
export async function layPlace(setting: CellSetting, layer: Promise<string>): Promise<SandboxPlace> {
  const { config, container, paths, processes } = setting;
  const { directory } = paths;
  const cgroups = new CellCgroups({
    uid: config.sandbox.uid,
    directory,
    limits: container.resources,
    ...(processes !== undefined && { processes }),
  });
  const laying = layer.then((path) => layRoot(config.rootPath, directory, path));
  const [root, cgroup] = await Promise.all([laying, cgroups.make()]);
  return { root, cgroup };
}

export async function removePlace({ root, cgroup }: SandboxPlace): Promise<void> {
  await Promise.all([cgroup.leaves?.remove(), root.remove()]);
}
