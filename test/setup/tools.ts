import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { toolNames } from "../../src/local/tools/pinned-tools.ts";

/** Vitest's global set-up: the tools are there before the first test starts, and their making has no time limit. */
export async function setup(): Promise<void> {
  await acquireTools({ names: toolNames, progress: console.log });
}
