import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { TestProject } from "vitest/node";
import { ensurePythonImage } from "../../src/local/images/python-image.ts";
import { acquirePinned, acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { pinnedSnapshotProgram, snapshotProgramNames } from "../../src/local/volumes/snapshot-programs.ts";
import { pinnedNodeTool } from "../kubelet/node-tools.ts";
import { acquireAzurite } from "./azurite.ts";
import { askingPrograms, pinnedTestTool } from "./pinned-tools.ts";

const progress = console.log;

/** What files need that import one of these modules of test/, directly or not. A file that gets its tools itself has to wait for them. */
const preparations: readonly { modules: readonly string[]; prepare: () => Promise<unknown> }[] = [
  {
    modules: ["setup/control-plane.ts", "setup/borrowed-plane.ts", "cluster/local-cluster.ts"],
    prepare: () => acquireTools({ names: ["etcd", "kube-apiserver"], progress }),
  },
  {
    modules: ["setup/cell-rig.ts", "cluster/controllers-real-node.ts", "cluster/local-cluster.ts"],
    prepare: () => acquireTools({ names: ["runsc", "ramet-guest", "ramet-link"], progress }),
  },
  {
    modules: ["setup/python-image.ts", "cluster/local-cluster.ts"],
    prepare: () => ensurePythonImage({ progress }),
  },
  {
    modules: ["setup/volume-cluster.ts", "cluster/local-cluster.ts"],
    prepare: () => acquirePinned(pinnedSnapshotProgram, { names: snapshotProgramNames, progress }),
  },
  { modules: ["setup/azurite.ts"], prepare: () => acquireAzurite(progress) },
  {
    modules: ["setup/s3-server.ts"],
    prepare: () => acquirePinned(pinnedTestTool, { names: ["versitygw"], progress }),
  },
  {
    modules: ["setup/gcs-server.ts"],
    prepare: () => acquirePinned(pinnedTestTool, { names: ["fake-gcs-server"], progress }),
  },
  ...askingPrograms.map((name) => ({
    modules: [`contract/${name}/${name}.test.ts`],
    prepare: () => acquirePinned(pinnedTestTool, { names: [name], progress }),
  })),
  {
    modules: ["cluster/csi-sanity.test.ts"],
    prepare: () => acquirePinned(pinnedTestTool, { names: ["csi-sanity"], progress }),
  },
  {
    modules: ["setup/scheduler.ts"],
    prepare: () => acquirePinned(pinnedNodeTool, { names: ["kube-scheduler"], progress }),
  },
];

/** Vitest's global setup: prepares the tools and images of the chosen files before the first test, without a time limit. */
export async function setup(project: TestProject): Promise<void> {
  const modules = modulesOfChosenFiles(project);
  const needed = preparations.filter((one) => one.modules.some((module) => modules.has(module)));
  await Promise.all(needed.map(({ prepare }) => prepare()));
}

/** Prepares the tools and images of all test files. */
export async function acquireEverything(): Promise<void> {
  await Promise.all(preparations.map(({ prepare }) => prepare()));
}

/** The chosen test files of a project, and the modules of test/ that they import: paths below test/. */
export function modulesOfChosenFiles({ vitest }: TestProject): ReadonlySet<string> {
  const root = join(import.meta.dirname, "..");
  const found = new Set<string>();
  const add = (path: string): void => {
    const module = path.slice(root.length + 1);
    if (!path.startsWith(`${root}/`) || found.has(module)) return;
    found.add(module);
    for (const [, imported = ""] of readFileSync(path, "utf8").matchAll(/from "(\.[^"]+\.ts)"/g))
      add(resolve(dirname(path), imported));
  };
  vitest.state.getPaths().forEach(add);
  return found;
}
