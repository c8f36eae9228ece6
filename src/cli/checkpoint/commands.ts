import { type Command, Option } from "commander";
import type { Consistency } from "../../api/kinds/checkpoint.ts";
import { getCommand, listCommand, removeCommand } from "../object/commands.ts";
import {
  commaList,
  truth,
  withClusterFlags,
  withExamples,
  withOutputFlag,
  withTimeoutFlag,
  withWaitFlags,
} from "../options.ts";
import type { Act } from "../report-error.ts";

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
  withOutputFlag(create, "only the id");
  withClusterFlags(create).action(act(async () => (await import("./create.ts")).createCheckpoint, "sandbox"));
  withExamples(
    create,
    "ramet checkpoint create a",
    "ramet checkpoint create a --contents filesystem --ttl 30d",
    "ramet checkpoint create a --contents memory,filesystem,volumes --consistency atomic",
    'ramet sandbox create --from "$(ramet checkpoint create a)"',
  );
  waitCommand(checkpoint, act);
  exportCommand(checkpoint, act);
  importCommand(checkpoint, act);
  listCommand(checkpoint, "checkpoint", act);
  getCommand(checkpoint, "checkpoint", act);
  removeCommand(checkpoint, "checkpoint", act);
}

function waitCommand(checkpoint: Command, act: Act): void {
  const command = checkpoint
    .command("wait")
    .description("Wait until a checkpoint can be cloned, and print its id.")
    .argument("<name>", "its name or id");
  withTimeoutFlag(command, { milliseconds: 60_000, shown: "60s" });
  withOutputFlag(command, "only the id");
  withExamples(command, "ramet checkpoint wait a", 'ramet checkpoint wait "$(ramet checkpoint create a --no-wait)"');
  withClusterFlags(command).action(act(async () => (await import("./create.ts")).waitForCheckpoint, "name"));
}

function exportCommand(checkpoint: Command, act: Act): void {
  const command = checkpoint
    .command("export")
    .description(
      "Print what an import needs of a checkpoint's volumes. It has no secrets. Memory and files are in the store, and are not exported.",
    )
    .argument("<name>", "its name or id")
    .addOption(new Option("-o, --output <format>", "the output format").choices(["yaml", "json"]).default("yaml"));
  withExamples(command, "ramet checkpoint export a > a.yaml", "ramet checkpoint export a -o json");
  withClusterFlags(command).action(act(async () => (await import("./exported-volumes.ts")).exportCheckpoint, "name"));
}

function importCommand(checkpoint: Command, act: Act): void {
  const command = checkpoint
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
    .option("--ttl <duration>", "delete it this long after it has finished, such as 30m, 12h or 30d (default: never)");
  withWaitFlags(command, "until it can be cloned");
  withOutputFlag(command, "only the id");
  withExamples(
    command,
    "ramet checkpoint import -f a.yaml --name a --template python -n team-b",
    "ramet checkpoint export a -n team-a | ramet checkpoint import -f - -n team-b",
  );
  withClusterFlags(command).action(act(async () => (await import("./exported-volumes.ts")).importCheckpoint));
}
