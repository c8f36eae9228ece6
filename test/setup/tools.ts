import { ensurePythonImage } from "../../src/local/images/python-image.ts";
import { acquirePinned, acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { toolNames } from "../../src/local/tools/pinned-tools.ts";
import { acquireAzurite } from "./azurite.ts";
import { pinnedTestTool, testToolNames } from "./pinned-tools.ts";

/** Vitest's global set-up: what the tests run on is there before the first one starts, and its making has no time limit. */
export async function setup(): Promise<void> {
  await Promise.all([
    acquireTools({ names: toolNames, progress: console.log }),
    acquireAzurite(console.log),
    acquirePinned(pinnedTestTool, { names: testToolNames, progress: console.log }),
    ensurePythonImage({ progress: console.log }),
  ]);
}
