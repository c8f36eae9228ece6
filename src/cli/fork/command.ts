import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { wholeNumber, withClusterFlags, withOutputFlag, withTimeoutFlag, withVolumesFlag } from "../options.ts";
import type { ForkOptions } from "./fork.ts";

/** `ramet fork`. */
export function forkCommand(program: Command, act: Act): void {
  const command = program
    .command("fork")
    .description("Clone a running sandbox, including its memory, and print the clones' names.")
    .argument("<name>", "the sandbox to clone; it keeps running")
    .option("--count <n>", "the number of sandboxes", wholeNumber, 1)
    .option("--name-prefix <prefix>", "name the clones <prefix>-1, <prefix>-2 and so on (default: generated names)")
    .option("--keep-checkpoint", "keep the checkpoint that the clones start from");
  withVolumesFlag(command);
  command.option("--paused", "create the clones paused: they get no Pod until they are resumed");
  withTimeoutFlag(command);
  withOutputFlag(command, "the names of the clones that are ready");
  withClusterFlags(command)
    .action(
      act(async (sandbox: string, options: Omit<ForkOptions, "sandbox">) => {
        const { forkSandbox } = await import("./fork.ts");
        return (io) => forkSandbox(io, { ...options, sandbox });
      }),
    )
    .addHelpText(
      "after",
      `
Prints the ready clones to stdout and the failures of the others to stderr. Exits with 1 if a
clone failed. --timeout applies to the checkpoint, and then to the clones.

Examples:
  $ ramet fork a
  $ ramet fork a --count 5 --name-prefix try
  $ ramet fork a --count 100 --paused
`,
    );
}
