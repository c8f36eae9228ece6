import { Option } from "commander";
import { listCommand, removeCommand } from "../object/commands.ts";
import { wholeNumber } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

export function snapshotCommands(program: RametCommand): void {
  const snapshot = program
    .command("snapshot")
    .alias("nsnap")
    .description("Build, name and version snapshots.")
    .examples(
      "ramet snapshot apply -f python-data.yaml",
      "ramet snapshot history python-data",
      "ramet snapshot rollback python-data",
    );
  buildCommands(snapshot);
  listCommand(snapshot, "snapshot");
  versionCommands(snapshot);
  removeCommand(snapshot, "snapshot");
}

const untilCurrent = "until the desired version is current";
/** A build takes as long as its steps. */
const forever = { milliseconds: Infinity, shown: "forever" };

function buildCommands(snapshot: RametCommand): void {
  snapshot
    .command("apply")
    .description("Apply NamedSnapshot manifests and follow their builds.")
    .requiredOption("-f, --file <path...>", "files of manifests in YAML or JSON; - reads stdin")
    .option("--keep-on-failure", "keep the sandbox of a failed build for inspection")
    .waitFlags(untilCurrent, forever)
    .clusterFlags()
    .examples("ramet snapshot apply -f python-data.yaml", "ramet snapshot apply -f python-data.yaml --keep-on-failure")
    .runs(async () => (await import("./apply.ts")).applySnapshots);
  snapshot
    .command("diff")
    .description("Compare two versions, or print what apply would build, and from which step. Changes nothing.")
    .argument("[from]", "a version, such as python-data@6")
    .argument("[to]", "another one (default: the current version of that snapshot)")
    .option("-f, --file <path...>", "files of manifests in YAML or JSON, instead of versions; - reads stdin")
    .option(
      "--store-path <place>",
      "the directory or address of the cluster's store, to compare files and packages (default: the local cluster's)",
    )
    .formats(["table", "json", "markdown"], "the output format; markdown, with -f, is a comment of a pull request")
    .clusterFlags()
    .examples(
      "ramet snapshot diff python-data@6 python-data@7",
      "ramet snapshot diff python-data@6 -o json --store-path 's3://checkpoints/ramet?region=eu-central-1'",
      "ramet snapshot diff -f python-data.yaml",
      "ramet snapshot diff -f python-data.yaml -o markdown",
    )
    .runs(async () => (await import("./diff.ts")).diffSnapshots, "from", "to");
  snapshot
    .command("build")
    .description("Retry a failed build and follow it. Steps that are already built are reused.")
    .argument("<name>", "the named snapshot")
    .option("--keep-on-failure", "keep the sandbox of a failed build for inspection")
    .waitFlags(untilCurrent, forever)
    .clusterFlags()
    .examples("ramet snapshot build python-data", "ramet snapshot build python-data --keep-on-failure")
    .usesCluster(async () => (await import("./apply.ts")).buildSnapshot, "name");
}

function versionCommands(snapshot: RametCommand): void {
  snapshot
    .command("get")
    .description("Show a snapshot and the steps of its latest build.")
    .argument("<name...>", "names")
    .outputFlag()
    .clusterFlags()
    .examples("ramet snapshot get python-data", "ramet snapshot get python-data -o yaml")
    .usesCluster(async () => (await import("./versions.ts")).getSnapshots, "names");
  snapshot
    .command("history")
    .description("List the kept versions, newest first; * marks the current one.")
    .argument("<name>", "the named snapshot")
    .clusterFlags()
    .examples("ramet snapshot history python-data")
    .usesCluster(async () => (await import("./versions.ts")).snapshotHistory, "name");
  snapshot
    .command("logs")
    .description("Print the output of a build's steps.")
    .argument("<name>", "the named snapshot")
    .option("--step <number>", "print only this step, counted from 1 (default: all)", wholeNumber)
    .option("--version <number>", "print the build of this version (default: the latest build)", wholeNumber)
    .addOption(
      new Option("-f, --follow", "follow the latest build to its end and exit with its result").conflicts("version"),
    )
    .accessFlags()
    .clusterFlags()
    .examples("ramet snapshot logs python-data -f", "ramet snapshot logs python-data --version 7 --step 2")
    .usesCluster(async () => (await import("./logs.ts")).snapshotLogs, "name");
  snapshot
    .command("pin")
    .description("Pin a kept version: it is used, and nothing is built until unpin.")
    .argument("<name>", "the named snapshot")
    .argument("<version>", "the version's number", wholeNumber)
    .clusterFlags()
    .examples("ramet snapshot pin python-data 7")
    .usesCluster(async () => (await import("./versions.ts")).pinSnapshot, "name", "version");
  snapshot
    .command("unpin")
    .description("Remove the pin, and build the recipe again.")
    .argument("<name>", "the named snapshot")
    .clusterFlags()
    .examples("ramet snapshot unpin python-data")
    .setOptionValue("version", "none")
    .usesCluster(async () => (await import("./versions.ts")).pinSnapshot, "name");
  snapshot
    .command("rollback")
    .description("Pin the version before the current one.")
    .argument("<name>", "the named snapshot")
    .option("--to <version>", "pin this version instead (default: the one before)", wholeNumber)
    .clusterFlags()
    .examples("ramet snapshot rollback python-data", "ramet snapshot rollback python-data --to 5")
    .usesCluster(async () => {
      const { pinSnapshot } = await import("./versions.ts");
      return (io, cluster, { name, to }: { name: string; to?: number }) =>
        pinSnapshot(io, cluster, { name, version: to ?? "previous" });
    }, "name");
  snapshot
    .command("upload")
    .description(
      "Store a directory or a file for copy steps, and print its digest. Uploads nothing that is stored already.",
    )
    .argument("<path>", "a local directory or file")
    .requiredOption("--template <name>", "the template of the sandbox through which the files are stored")
    .accessFlags()
    .timeoutFlag({ milliseconds: 600_000, shown: "10m" })
    .clusterFlags()
    .examples("ramet snapshot upload ./app --template python")
    .runs(async () => (await import("./upload.ts")).uploadTree, "path");
}
