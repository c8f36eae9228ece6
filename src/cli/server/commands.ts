import type { Command } from "commander";
import type { Act } from "../program.ts";

/** What runs in the cluster: `ramet controller` and `ramet cell`. */
export function serverCommands(program: Command, act: Act): void {
  program
    .command("cell")
    .description("Run the cell of a sandbox Pod; its setting comes from the environment.")
    .action(
      act(async () => {
        const { runCell } = await import("./cell.ts");
        return runCell;
      }),
    );
}
