import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { withClusterFlags, withOutputFlag, withVolumesFlag, withWaitFlags } from "../options.ts";
import type { RollbackOptions } from "./rollback.ts";

/** `ramet rollback`. */
export function rollbackCommand(program: Command, act: Act): void {
  const command = program
    .command("rollback")
    .description("Restore a sandbox to a checkpoint, in place.")
    .argument("<name>", "the sandbox")
    .argument("<checkpoint>", "the checkpoint's id or name, or a version of a named snapshot");
  withVolumesFlag(command);
  withWaitFlags(command, "until it is ready again");
  withOutputFlag(command, "one sentence");
  withClusterFlags(command)
    .action(
      act(async (name: string, to: string, options: Omit<RollbackOptions, "name" | "to">) => {
        const { rollBackSandbox } = await import("./rollback.ts");
        return (io) => rollBackSandbox(io, { ...options, name, to });
      }),
    )
    .addHelpText(
      "after",
      `
The sandbox keeps its name and volumes and gets another IP address. Its current memory and files are lost.
If it has PersistentVolumeClaims, --volumes Shared confirms that they keep their current data.
Beside other controllers, a clone with another name replaces the sandbox.

Examples:
  $ id=$(ramet checkpoint create a)
  $ ramet rollback a "$id"
`,
    );
}
