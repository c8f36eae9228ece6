import { type Command, Option } from "commander";
import { listCommand, removeCommand } from "../object/commands.ts";
import {
  wholeNumber,
  withAccessFlags,
  withClusterFlags,
  withExamples,
  withOutputFlag,
  withTimeoutFlag,
  withWaitFlags,
} from "../options.ts";
import type { Act } from "../report-error.ts";
import type { PinSnapshotOptions } from "./versions.ts";

/** `ramet snapshot …`. */
export function snapshotCommands(snapshot: Command, act: Act): void {
  applyCommand(snapshot, act);
  diffCommand(snapshot, act);
  buildCommand(snapshot, act);
  listCommand(snapshot, "snapshot", act);
  getCommand(snapshot, act);
  historyCommand(snapshot, act);
  logsCommand(snapshot, act);
  pinCommands(snapshot, act);
  uploadCommand(snapshot, act);
  removeCommand(snapshot, "snapshot", act);
}

function applyCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("apply")
    .description("Apply NamedSnapshot manifests and follow their builds.")
    .requiredOption("-f, --file <path...>", "files of manifests in YAML or JSON; - reads stdin")
    .option("--keep-on-failure", "keep the sandbox of a failed build for inspection");
  withBuildWait(command);
  withExamples(
    command,
    "ramet snapshot apply -f python-data.yaml",
    "ramet snapshot apply -f python-data.yaml --keep-on-failure",
  );
  withClusterFlags(command).action(act(async () => (await import("./apply.ts")).applySnapshots));
}

function diffCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("diff")
    .description("Print what apply would build, and from which step. Changes nothing.")
    .requiredOption("-f, --file <path...>", "files of manifests in YAML or JSON; - reads stdin");
  withExamples(command, "ramet snapshot diff -f python-data.yaml");
  withClusterFlags(command).action(act(async () => (await import("./diff.ts")).diffSnapshots));
}

function buildCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("build")
    .description("Retry a failed build and follow it. Steps that are already built are reused.")
    .argument("<name>", "the named snapshot")
    .option("--keep-on-failure", "keep the sandbox of a failed build for inspection");
  withBuildWait(command);
  withExamples(command, "ramet snapshot build python-data", "ramet snapshot build python-data --keep-on-failure");
  withClusterFlags(command).action(act(async () => (await import("./apply.ts")).buildSnapshot, "name"));
}

function getCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("get")
    .description("Show a snapshot and the steps of its latest build.")
    .argument("<name...>", "names");
  withOutputFlag(command);
  withExamples(command, "ramet snapshot get python-data", "ramet snapshot get python-data -o yaml");
  withClusterFlags(command).action(act(async () => (await import("./versions.ts")).getSnapshots, "names"));
}

function historyCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("history")
    .description("List the kept versions, newest first; * marks the current one.")
    .argument("<name>", "the named snapshot");
  withExamples(command, "ramet snapshot history python-data");
  withClusterFlags(command).action(act(async () => (await import("./versions.ts")).snapshotHistory, "name"));
}

function logsCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("logs")
    .description("Print the output of a build's steps.")
    .argument("<name>", "the named snapshot")
    .option("--step <number>", "print only this step, counted from 1 (default: all)", wholeNumber)
    .option("--version <number>", "print the build of this version (default: the latest build)", wholeNumber)
    .addOption(
      new Option("-f, --follow", "follow the latest build to its end and exit with its result").conflicts("version"),
    );
  withAccessFlags(command);
  withExamples(command, "ramet snapshot logs python-data -f", "ramet snapshot logs python-data --version 7 --step 2");
  withClusterFlags(command).action(act(async () => (await import("./logs.ts")).snapshotLogs, "name"));
}

function pinCommands(snapshot: Command, act: Act): void {
  const pin = snapshot
    .command("pin")
    .description("Pin a kept version: it is used, and nothing is built until unpin.")
    .argument("<name>", "the named snapshot")
    .argument("<version>", "the version's number", wholeNumber);
  withExamples(pin, "ramet snapshot pin python-data 7");
  withClusterFlags(pin).action(act(async () => (await import("./versions.ts")).pinSnapshot, "name", "version"));
  const unpin = snapshot
    .command("unpin")
    .description("Remove the pin, and build the recipe again.")
    .argument("<name>", "the named snapshot");
  withExamples(unpin, "ramet snapshot unpin python-data");
  withClusterFlags(unpin).action(
    act(async () => {
      const { pinSnapshot } = await import("./versions.ts");
      return (io, options: Omit<PinSnapshotOptions, "version">) => pinSnapshot(io, { ...options, version: "none" });
    }, "name"),
  );
  const rollback = snapshot
    .command("rollback")
    .description("Pin the version before the current one.")
    .argument("<name>", "the named snapshot")
    .option("--to <version>", "pin this version instead (default: the one before)", wholeNumber);
  withExamples(rollback, "ramet snapshot rollback python-data", "ramet snapshot rollback python-data --to 5");
  withClusterFlags(rollback).action(
    act(async () => {
      const { pinSnapshot } = await import("./versions.ts");
      return (io, { to, ...options }: Omit<PinSnapshotOptions, "version"> & { to?: number }) =>
        pinSnapshot(io, { ...options, version: to ?? "previous" });
    }, "name"),
  );
}

function uploadCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("upload")
    .description(
      "Store a directory or a file for copy steps, and print its digest. Uploads nothing that is stored already.",
    )
    .argument("<path>", "a local directory or file")
    .requiredOption("--template <name>", "the template of the sandbox through which the files are stored");
  withAccessFlags(command);
  withTimeoutFlag(command, { milliseconds: 600_000, shown: "10m" });
  withExamples(command, "ramet snapshot upload ./app --template python");
  withClusterFlags(command).action(act(async () => (await import("./upload.ts")).uploadTree, "path"));
}

/** A build takes as long as its steps. */
function withBuildWait(command: Command): void {
  withWaitFlags(command, "until the desired version is current", { milliseconds: Infinity, shown: "forever" });
}
