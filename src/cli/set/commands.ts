import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { getCommand, listCommand, removeCommand } from "../object/verbs.ts";
import { wholeNumber, withClusterFlags, withWaitFlags } from "../options.ts";
import type { ScaleSetOptions } from "./scale.ts";

/** `ramet set …`. */
export function setCommands(set: Command, act: Act): void {
  listCommand(set, "set", act);
  getCommand(set, "set", act);
  scaleCommand(set, act);
  removeCommand(set, "set", act);
}

function scaleCommand(set: Command, act: Act): void {
  const command = set
    .command("scale")
    .description("Set the number of sandboxes that a set keeps ready.")
    .argument("<name>", "the set")
    .argument("<replicas>", "the number of unclaimed sandboxes", wholeNumber);
  withWaitFlags(command, "until that number is ready");
  withClusterFlags(command)
    .action(
      act(async (name: string, replicas: number, options: Omit<ScaleSetOptions, "name" | "replicas">) => {
        const { scaleSet } = await import("./scale.ts");
        return (io) => scaleSet(io, { ...options, name, replicas });
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet set scale python 20
  $ ramet set scale python 0 --no-wait
`,
    );
}
