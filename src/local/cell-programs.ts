import { cp, mkdir, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { RametError } from "../base/errors.ts";
import { acquireTools, type AcquireOptions } from "./tools/acquire-tools.ts";

const names = ["runsc", "ramet-guest", "ramet-link"] as const;

/**
 * Copies the programs that a cell runs into a directory: gVisor with its side programs, guest and link. Replaces existing
 * files.
 * @throws RametError `ToolMissing`, `InvalidArgument` if the directory is not writable, `Canceled`
 */
export async function placeCellPrograms(
  directory: string,
  options: Pick<AcquireOptions<string>, "clock" | "signal" | "progress">,
): Promise<string[]> {
  const tools = await acquireTools({ ...options, names });
  const sideProgramsPath = join(dirname(await realpath(tools.runsc)), "gvisor-bin");
  try {
    await mkdir(directory, { recursive: true });
    for (const name of names) await cp(await realpath(tools[name]), join(directory, name));
    await cp(sideProgramsPath, join(directory, basename(sideProgramsPath)), { recursive: true }).catch(unlessMissing);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RametError("InvalidArgument", `Writing to ${directory} failed: ${why}`, { cause: error });
  }
  return names.map((name) => join(directory, name));
}

function unlessMissing(error: unknown): void {
  if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
}
