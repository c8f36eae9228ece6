import { mkdirSync } from "node:fs";
import { runProgram } from "../tools/run-program.ts";

/**
 * Fills Node's compile cache with the cell's program. Cells can only read it, so that none can change the code of another.
 * The program runs in namespaces, as a cell does, because Node's cache has a directory for each user id.
 */
export async function warmCompileCache(directory: string, link: string, cell: readonly string[]): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // Without input the cell loads its program and exits.
  const environment = {
    NODE_COMPILE_CACHE: directory,
    RAMET_CELL_SETTING: "stdin",
  };
  await runProgram(link, ["pod", "--", ...cell], { environment, what: "Loading the cell's program" });
}
