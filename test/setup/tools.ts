import { ensurePythonImage } from "../../src/local/images/python-image.ts";
import { acquirePinned, acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { toolNames } from "../../src/local/tools/pinned-tools.ts";
import { pinnedSnapshotProgram, snapshotProgramNames } from "../../src/local/volumes/snapshot-programs.ts";
import { pinnedNodeTool } from "../kubelet/node-tools.ts";
import { acquireAzurite } from "./azurite.ts";
import { pinnedTestTool, testToolNames } from "./pinned-tools.ts";

/** Vitest's global setup: prepares the tools and images before the first test, without a time limit. */
export async function setup(): Promise<void> {
  await Promise.all([
    acquireTools({ names: toolNames, progress: console.log }),
    acquireAzurite(console.log),
    acquirePinned(pinnedTestTool, { names: testToolNames, progress: console.log }),
    acquirePinned(pinnedNodeTool, { names: ["kube-scheduler"], progress: console.log }),
    acquirePinned(pinnedSnapshotProgram, { names: snapshotProgramNames, progress: console.log }),
    ensurePythonImage({ progress: console.log }),
  ]);
}
