import { Option } from "commander";
import { besideProjects } from "../../api/names/system-names.ts";
import { checkEngine } from "../../install/setting.ts";
import { parsed, timeoutMilliseconds } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

export function doctorCommand(program: RametCommand): void {
  program
    .command("doctor")
    .description("Check a cluster before or after an installation of Ramet. Exits with 1 if there is an error.")
    .formats()
    .addOption(
      new Option("--timeout <duration>", "how long each read may take, such as 10s; what takes longer is unknown")
        .default(1_500, "1.5s")
        .argParser(timeoutMilliseconds),
    )
    .choice(
      "--beside <project>",
      "check for an installation beside the controllers of this project (default: what is installed)",
      besideProjects,
    )
    .option(
      "--snapshot-handles <file>",
      "find snapshots that the storage has and the cluster does not know; a handle a line, and its time if known",
    )
    .clusterFlags()
    .examples("ramet doctor", "ramet doctor -n team-a -o json", "ramet doctor --beside=openkruise")
    .runs(async () => (await import("./check.ts")).checkWithDoctor);
}

export function upgradeCommand(program: RametCommand): void {
  program
    .command("upgrade")
    .description("Show what an upgrade to another cell image does to snapshots, sets and sandboxes.")
    .requiredOption("--plan", "print what will happen, and change nothing; the upgrade itself is a new installation")
    .requiredOption("--cell-image <image>", "the cell image of the release to which you upgrade")
    .option("--cell-engine <id>", "the engine of that image (default: if it is not known, another one)", (text) => {
      parsed(() => {
        checkEngine(text);
      });
      return text;
    })
    .formats()
    .clusterFlags()
    .examples("ramet upgrade --plan --cell-image registry.example/ramet-cell:2")
    .usesCluster(async () => (await import("./print-upgrade-plan.ts")).printUpgradePlan);
}
