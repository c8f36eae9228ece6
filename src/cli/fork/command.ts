import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { wholeNumber, withClusterFlags, withOutputFlag, withTimeoutFlag } from "../options.ts";
import type { ForkOptions } from "./fork.ts";

/** `ramet fork`. */
export function forkCommand(program: Command, act: Act): void {
  const command = program
    .command("fork")
    .description("Make clones of a sandbox as it is now, with its memory, and print their names.")
    .argument("<name>", "the sandbox; it goes on")
    .option("--count <n>", "how many", wholeNumber, 1)
    .option("--name-prefix <prefix>", "call them <prefix>-1, <prefix>-2 and so on (default: generated names)")
    .option("--keep-checkpoint", "keep the checkpoint that they are made from");
  withTimeoutFlag(command);
  withOutputFlag(command, "the names of those that answer");
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
Each clone has a result of its own: those that answer are printed, of the others stderr has the cause, and the exit code is
not 0. --timeout is for the checkpoint, and then for the clones.

Examples:
  $ ramet fork a
  $ ramet fork a --count 5 --name-prefix try
`,
    );
}
