import { getCommand, listCommand, removeCommand } from "../object/commands.ts";
import { collectVariable, positiveNumber, wholeNumber } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

export function setCommands(program: RametCommand): void {
  const set = program
    .command("set")
    .alias("sbs")
    .description("Keep sandboxes ready to claim.")
    .examples("ramet set ls", "ramet set scale python 20");
  listCommand(set, "set");
  getCommand(set, "set");
  set
    .command("scale")
    .description("Set the number of sandboxes that a set keeps ready.")
    .argument("<name>", "the set")
    .argument("<replicas>", "the number of unclaimed sandboxes", wholeNumber)
    .waitFlags("until that number is ready")
    .clusterFlags()
    .examples("ramet set scale python 20", "ramet set scale python 0 --no-wait")
    .usesCluster(async () => (await import("./scale.ts")).scaleSet, "name", "replicas");
  removeCommand(set, "set");
}

export function claimCommands(program: RametCommand): void {
  const claim = program
    .command("claim")
    .description("Claim ready sandboxes of a set.")
    .examples("ramet claim python", "ramet claim ls");
  claim
    .command("take", { isDefault: true })
    .description("Claim ready sandboxes of a set and print their names. `take` is optional.")
    .argument("<set>", "the set to claim from")
    .option("--count <n>", "the number of sandboxes", positiveNumber, 1)
    .option("--label <name=value>", "a label for each sandbox; repeatable", collectVariable)
    .option("-e, --env <name=value>", "an environment variable for each sandbox; repeatable", collectVariable)
    .option("--from <checkpoint>", "restore this checkpoint (id or name) or named snapshot into each claimed sandbox")
    .option("--no-create", "wait for a ready sandbox instead of creating one when none is ready")
    .option("--name <name>", "the claim's name (default: generated)")
    .volumesFlag()
    .waitFlags("until they are claimed")
    .outputFlag("only the sandboxes' names, or with --no-wait the claim's name")
    .clusterFlags()
    .addHelpText("after", `\nWhen --timeout expires, the claim completes with the sandboxes that it has.`)
    .examples(
      "ramet claim python",
      "ramet claim python --from python-data@7",
      "ramet claim python --count 5 --label task=42 -e TASK=42",
      "ramet sandbox exec \"$(ramet claim python)\" -- python3 -c 'print(1)'",
    )
    .runs(async () => (await import("./take.ts")).takeFromSet, "set");
  listCommand(claim, "claim");
  getCommand(claim, "claim");
  removeCommand(claim, "claim");
}
