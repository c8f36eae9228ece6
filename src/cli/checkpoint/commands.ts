import type { Consistency } from "../../api/kinds/checkpoint.ts";
import { getCommand, listCommand, removeCommand } from "../object/commands.ts";
import { commaList, truth } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

/** `ramet checkpoint …`. It has no alias `cp`, which people expect to copy files: that is `ramet sandbox cp`. */
export function checkpointCommands(program: RametCommand): void {
  const checkpoint = program
    .command("checkpoint")
    .description("Capture sandboxes.")
    .examples("ramet checkpoint create a", "ramet checkpoint ls");
  checkpoint
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
    .choice("--consistency <level>", "how consistent the volumes are (default: crash)", [
      "crash",
      "sync",
      "atomic",
    ] satisfies Consistency[])
    .option("--require-atomic", "fail unless memory and volumes are captured at one moment")
    .option("--ttl <duration>", "delete it this long after it has finished, such as 30m, 12h or 30d (default: never)")
    .option("--keep-running <true|false>", "whether the sandbox keeps running afterwards (default: true)", truth)
    .option("--name <name>", "its name (default: generated)")
    .waitFlags("until it can be cloned")
    .outputFlag("only the id")
    .clusterFlags()
    .examples(
      "ramet checkpoint create a",
      "ramet checkpoint create a --contents filesystem --ttl 30d",
      "ramet checkpoint create a --contents memory,filesystem,volumes --consistency atomic",
      'ramet sandbox create --from "$(ramet checkpoint create a)"',
    )
    .runs(async () => (await import("./create.ts")).createCheckpoint, "sandbox");
  checkpoint
    .command("wait")
    .description("Wait until a checkpoint can be cloned, and print its id.")
    .argument("<name>", "its name or id")
    .timeoutFlag()
    .outputFlag("only the id")
    .clusterFlags()
    .examples("ramet checkpoint wait a", 'ramet checkpoint wait "$(ramet checkpoint create a --no-wait)"')
    .usesCluster(async () => (await import("./create.ts")).waitForCheckpoint, "name");
  checkpoint
    .command("export")
    .description(
      "Print what an import needs of a checkpoint's volumes. It has no secrets. Memory and files are in the store, and are not exported.",
    )
    .argument("<name>", "its name or id")
    .formats(["yaml", "json"])
    .clusterFlags()
    .examples("ramet checkpoint export a > a.yaml", "ramet checkpoint export a -o json")
    .usesCluster(async () => (await import("./exported-volumes.ts")).exportCheckpoint, "name");
  checkpoint
    .command("import")
    .description(
      "Make a checkpoint of exported volumes of another namespace or cluster, and print its id as the last line. Requires the verb import on checkpoints.",
    )
    .requiredOption("-f, --file <path>", "the output of ramet checkpoint export; - reads stdin")
    .option("--name <name>", "its name (default: generated)")
    .option("--template <name>", "the SandboxTemplate of its clones (default: each clone needs its own)")
    .option(
      "--take-ownership",
      "delete the data with the last checkpoint of this cluster that has it, also if another cluster has captured it",
    )
    .option("--ttl <duration>", "delete it this long after it has finished, such as 30m, 12h or 30d (default: never)")
    .waitFlags("until it can be cloned")
    .outputFlag("only the id")
    .clusterFlags()
    .examples(
      "ramet checkpoint import -f a.yaml --name a --template python -n team-b",
      "ramet checkpoint export a -n team-a | ramet checkpoint import -f - -n team-b",
    )
    .runs(async () => (await import("./exported-volumes.ts")).importCheckpoint);
  listCommand(checkpoint, "checkpoint");
  getCommand(checkpoint, "checkpoint");
  removeCommand(checkpoint, "checkpoint");
}
