import { type Command, Option } from "commander";
import type { Consistency } from "../../api/kinds/checkpoint.ts";
import { getCommand, listCommand, removeCommand } from "../object/verbs.ts";
import { commaList, truth, withClusterFlags, withOutputFlag, withWaitFlags } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { CreateCheckpointOptions } from "./create.ts";

/** `ramet checkpoint …`. */
export function checkpointCommands(checkpoint: Command, act: Act): void {
  const create = checkpoint
    .command("create")
    .description("Capture a sandbox and print the checkpoint's id as the last line.")
    .argument("<sandbox>", "the sandbox to capture")
    .option(
      "--contents <list>",
      "memory,filesystem or filesystem, and volumes with either or alone (default: the sandbox's own, else memory,filesystem)",
      commaList,
    )
    .option(
      "--volumes <names>",
      "the volumes to capture, by their names in the Pod (default: all, with volumes)",
      commaList,
    )
    .addOption(
      new Option("--consistency <level>", "how consistent the volumes are (default: crash)").choices([
        "crash",
        "sync",
        "atomic",
      ] satisfies Consistency[]),
    )
    .option("--require-atomic", "fail unless memory and volumes are captured at one moment")
    .option("--ttl <duration>", "delete it this long after it has finished, such as 30m, 12h or 30d (default: never)")
    .option("--keep-running <true|false>", "whether the sandbox keeps running afterwards (default: true)", truth)
    .option("--name <name>", "its name (default: generated)");
  withWaitFlags(create, "until it can be cloned");
  withOutputFlag(create, "only the id, or with --no-wait the name");
  withClusterFlags(create)
    .action(
      act(async (sandbox: string, options: Omit<CreateCheckpointOptions, "sandbox">) => {
        const { createCheckpoint } = await import("./create.ts");
        return (io) => createCheckpoint(io, { ...options, sandbox });
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet checkpoint create a
  $ ramet checkpoint create a --contents filesystem --ttl 30d
  $ ramet checkpoint create a --contents memory,filesystem,volumes --consistency atomic
  $ ramet sandbox create --from "$(ramet checkpoint create a)"
`,
    );
  listCommand(checkpoint, "checkpoint", act);
  getCommand(checkpoint, "checkpoint", act);
  removeCommand(checkpoint, "checkpoint", act);
}
