import { appendFile, copyFile, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { acquirePinned, acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { pinnedTool } from "../../src/local/tools/pinned-tools.ts";
import type { Tool } from "../../src/local/tools/tool.ts";

/**
 * Programs of another engine than Ramet's: a gVisor of two months earlier, and a guest that differs in one string. The gVisor
 * is built once, which takes minutes.
 */
export function otherEngine(): Promise<Record<"other-runsc" | "other-guest", string>> {
  return acquirePinned(pinned, { names: ["other-runsc", "other-guest"], progress: console.log });
}

/** A guest that is not Ramet's, which is built in seconds. */
export async function otherGuest(): Promise<string> {
  return (await acquirePinned(pinned, { names: ["other-guest"] }))["other-guest"];
}

/** Ramet's own guest at another path, which a test can remove. */
export async function copyOfGuest(): Promise<string> {
  const { "ramet-guest": own } = await acquireTools({ names: ["ramet-guest"] });
  const directory = await mkdtemp(join(tmpdir(), "ramet-guest-"));
  await copyFile(own, join(directory, "ramet-guest"));
  return join(directory, "ramet-guest");
}

/** A copy of Ramet's own guest with a byte more. Its digest differs, which makes another engine of it. */
export async function longerGuest(): Promise<string> {
  const path = await copyOfGuest();
  await appendFile(path, "\n");
  return path;
}

async function pinned(name: "other-runsc" | "other-guest"): Promise<Tool> {
  if (name === "other-guest") {
    const { fits: _, ...own } = await pinnedTool("ramet-guest");
    return { ...own, name, build: { ...own.build, set: { "main.version": "other" } } };
  }
  const version = "20260701.0";
  return {
    name,
    version,
    build: {
      module: join(import.meta.dirname, "..", "tools", "gvisor"),
      package: "gvisor.dev/gvisor/runsc",
      set: { "gvisor.dev/gvisor/runsc/version.version": version },
      coldSeconds: 240,
    },
  };
}
