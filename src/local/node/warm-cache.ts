import { mkdirSync } from "node:fs";
import { runProgram } from "../tools/run-program.ts";

/**
 * Has Node keep the compiled code of the cell's program in a directory that cells may then only read, so that none can put
 * other code there for the next one. It is run in namespaces as a cell is: Node has a directory for each user id.
 */
export async function warmCompileCache(directory: string, link: string, cell: readonly string[]): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // Without an input it loads its program and ends.
  const environment = {
    NODE_COMPILE_CACHE: directory,
    RAMET_CELL_SETTING: "stdin",
  };
  await runProgram(link, ["pod", "--", ...cell], { environment, what: "Loading the cell's program" });
}
