import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { getCommand, listCommand, removeCommand } from "../object/verbs.ts";
import { collectVariable, wholeNumber, withClusterFlags, withOutputFlag, withWaitFlags } from "../options.ts";
import type { TakeOptions } from "./take.ts";

/** `ramet claim …`. */
export function claimCommands(claim: Command, act: Act): void {
  takeCommand(claim, act);
  listCommand(claim, "claim", act);
  getCommand(claim, "claim", act);
  removeCommand(claim, "claim", act);
}

function takeCommand(claim: Command, act: Act): void {
  const command = claim
    .command("take", { isDefault: true })
    .description("Take sandboxes out of a set, and print their names. `take` may be left out.")
    .argument("<set>", "the set")
    .option("--count <n>", "how many", wholeNumber, 1)
    .option("--label <name=value>", "a label for each; may be repeated", collectVariable)
    .option("-e, --env <name=value>", "a variable of their environment; may be repeated", collectVariable)
    .option("--from <checkpoint>", "have a checkpoint (id or name), or a named snapshot, go on in each")
    .option("--no-create", "wait for one that is ready instead of making one where none is")
    .option("--name <name>", "the claim's name (default: generated)");
  withWaitFlags(command, "until they are claimed");
  withOutputFlag(command, "the sandboxes' names alone, with --no-wait the claim's");
  withClusterFlags(command)
    .action(
      act(async (set: string, options: Omit<TakeOptions, "set">) => {
        const { takeFromSet } = await import("./take.ts");
        return (io) => takeFromSet(io, { ...options, set });
      }),
    )
    .addHelpText(
      "after",
      `
When the time of --timeout is over, the claim ends with what it has.

Examples:
  $ ramet claim python
  $ ramet claim python --from python-data@7
  $ ramet claim python --count 5 --label task=42 -e TASK=42
  $ ramet sandbox exec "$(ramet claim python)" -- python3 -c 'print(1)'
`,
    );
}
