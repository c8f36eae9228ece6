import type { Command } from "commander";
import type { Act } from "../report-error.ts";
import { getCommand, listCommand, removeCommand } from "../object/commands.ts";
import {
  collectVariable,
  wholeNumber,
  withClusterFlags,
  withExamples,
  withOutputFlag,
  withVolumesFlag,
  withWaitFlags,
} from "../options.ts";

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
    .description("Claim ready sandboxes of a set and print their names. `take` is optional.")
    .argument("<set>", "the set to claim from")
    .option("--count <n>", "the number of sandboxes", wholeNumber, 1)
    .option("--label <name=value>", "a label for each sandbox; repeatable", collectVariable)
    .option("-e, --env <name=value>", "an environment variable for each sandbox; repeatable", collectVariable)
    .option("--from <checkpoint>", "restore this checkpoint (id or name) or named snapshot into each claimed sandbox")
    .option("--no-create", "wait for a ready sandbox instead of creating one when none is ready")
    .option("--name <name>", "the claim's name (default: generated)");
  withVolumesFlag(command);
  withWaitFlags(command, "until they are claimed");
  withOutputFlag(command, "only the sandboxes' names, or with --no-wait the claim's name");
  withClusterFlags(command).action(act(async () => (await import("./take.ts")).takeFromSet, "set"));
  withExamples(
    command.addHelpText("after", `\nWhen --timeout expires, the claim completes with the sandboxes that it has.`),
    "ramet claim python",
    "ramet claim python --from python-data@7",
    "ramet claim python --count 5 --label task=42 -e TASK=42",
    "ramet sandbox exec \"$(ramet claim python)\" -- python3 -c 'print(1)'",
  );
}

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
  withClusterFlags(command).action(act(async () => (await import("./scale.ts")).scaleSet, "name", "replicas"));
  withExamples(command, "ramet set scale python 20", "ramet set scale python 0 --no-wait");
}
