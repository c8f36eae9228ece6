import { type Command, Option } from "commander";
import { listCommand, removeCommand } from "../object/verbs.ts";
import { wholeNumber, withClusterFlags, withOutputFlag, withWaitFlags } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { ApplySnapshotsOptions, BuildSnapshotOptions } from "./apply.ts";
import type { DiffSnapshotsOptions } from "./diff.ts";
import type { GetSnapshotsOptions } from "./get.ts";
import type { SnapshotLogsOptions } from "./logs.ts";
import type { PinSnapshotOptions, SnapshotHistoryOptions } from "./versions.ts";

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
  removeCommand(snapshot, "snapshot", act);
}

function applyCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("apply")
    .description("Make named snapshots what files say, and follow their builds.")
    .requiredOption("-f, --file <path...>", "manifests in YAML or JSON; - is stdin")
    .option("--keep-on-failure", "keep the sandbox of a build that fails, for a look inside");
  withBuildWait(command);
  withClusterFlags(command)
    .action(
      act(async (options: ApplySnapshotsOptions) => {
        const { applySnapshots } = await import("./apply.ts");
        return (io) => applySnapshots(io, options);
      }),
    )
    .addHelpText("after", "\nExamples:\n  $ ramet snapshot apply -f python-data.yaml\n");
}

function diffCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("diff")
    .description("Say what apply would build, and from which step on. Changes nothing.")
    .requiredOption("-f, --file <path...>", "manifests in YAML or JSON; - is stdin");
  withClusterFlags(command).action(
    act(async (options: DiffSnapshotsOptions) => {
      const { diffSnapshots } = await import("./diff.ts");
      return (io) => diffSnapshots(io, options);
    }),
  );
}

function buildCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("build")
    .description("Try a build that has failed again, and follow it. What is built already is no work.")
    .argument("<name>", "the named snapshot")
    .option("--keep-on-failure", "keep the sandbox of a build that fails, for a look inside");
  withBuildWait(command);
  withClusterFlags(command).action(
    act(async (name: string, options: Omit<BuildSnapshotOptions, "name">) => {
      const { buildSnapshot } = await import("./apply.ts");
      return (io) => buildSnapshot(io, { ...options, name });
    }),
  );
}

function getCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("get")
    .description("Show a snapshot, and the steps of its latest build.")
    .argument("<name...>", "names");
  withOutputFlag(command);
  withClusterFlags(command).action(
    act(async (names: string[], options: Omit<GetSnapshotsOptions, "names">) => {
      const { getSnapshots } = await import("./get.ts");
      return (io) => getSnapshots(io, { ...options, names });
    }),
  );
}

function historyCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("history")
    .description("List the versions that are kept; * marks the one that serves.")
    .argument("<name>", "the named snapshot");
  withClusterFlags(command).action(
    act(async (name: string, options: Omit<SnapshotHistoryOptions, "name">) => {
      const { snapshotHistory } = await import("./versions.ts");
      return (io) => snapshotHistory(io, { ...options, name });
    }),
  );
}

function logsCommand(snapshot: Command, act: Act): void {
  const command = snapshot
    .command("logs")
    .description("Print what the steps of a build printed.")
    .argument("<name>", "the named snapshot")
    .option("--step <number>", "of this step only, counted from 1 (default: of all)", wholeNumber)
    .option("--version <number>", "of the build of this version (default: of the latest build)", wholeNumber)
    .addOption(
      new Option("-f, --follow", "print on until the latest build has ended; the exit code says how").conflicts(
        "version",
      ),
    );
  withClusterFlags(command).action(
    act(async (name: string, options: Omit<SnapshotLogsOptions, "name">) => {
      const { snapshotLogs } = await import("./logs.ts");
      return (io) => snapshotLogs(io, { ...options, name });
    }),
  );
}

function pinCommands(snapshot: Command, act: Act): void {
  const pin = snapshot
    .command("pin")
    .description("Let a kept version serve, and build nothing until unpin.")
    .argument("<name>", "the named snapshot")
    .argument("<version>", "its number", wholeNumber);
  withClusterFlags(pin).action(
    act((name: string, version: number, options: PinOptions) => pinTo({ ...options, name, version })),
  );
  const unpin = snapshot
    .command("unpin")
    .description("Follow the recipe again.")
    .argument("<name>", "the named snapshot");
  withClusterFlags(unpin).action(
    act((name: string, options: PinOptions) => pinTo({ ...options, name, version: "none" })),
  );
  const rollback = snapshot
    .command("rollback")
    .description("Let the version before the present one serve: pins it.")
    .argument("<name>", "the named snapshot")
    .option("--to <version>", "this version (default: the one before)", wholeNumber);
  withClusterFlags(rollback).action(
    act((name: string, { to, ...options }: PinOptions & { to?: number }) =>
      pinTo({ ...options, name, version: to ?? "previous" }),
    ),
  );
}

type PinOptions = Omit<PinSnapshotOptions, "name" | "version">;

async function pinTo(options: PinSnapshotOptions) {
  const { pinSnapshot } = await import("./versions.ts");
  return (io: Parameters<typeof pinSnapshot>[0]) => pinSnapshot(io, options);
}

/** A build takes as long as its steps. */
function withBuildWait(command: Command): void {
  withWaitFlags(command, "until it serves what is wanted", { milliseconds: Infinity, shown: "for ever" });
}
