import { type Command, Option } from "commander";
import { besideProjects } from "../../api/names/system-names.ts";
import { timeoutMilliseconds, parsed, withClusterFlags, withExamples } from "../options.ts";
import type { Act } from "../report-error.ts";
import { checkEngine } from "../../install/setting.ts";

/** `ramet doctor`. */
export function doctorCommand(program: Command, act: Act): void {
  const command = program
    .command("doctor")
    .description("Check a cluster before or after an installation of Ramet. Exits with 1 if there is an error.")
    .addOption(new Option("-o, --output <format>", "the output format").choices(["table", "json"]).default("table"))
    .addOption(
      new Option("--timeout <duration>", "how long each read may take, such as 10s; what takes longer is unknown")
        .default(1_500, "1.5s")
        .argParser(timeoutMilliseconds),
    )
    .addOption(
      new Option(
        "--beside <project>",
        "check for an installation beside the controllers of this project (default: what is installed)",
      ).choices(besideProjects),
    );
  command.option(
    "--snapshot-handles <file>",
    "find snapshots that the storage has and the cluster does not know; a handle a line, and its time if known",
  );
  withExamples(command, "ramet doctor", "ramet doctor -n team-a -o json", "ramet doctor --beside=openkruise");
  withClusterFlags(command).action(act(async () => (await import("./check.ts")).checkWithDoctor));
}

/** `ramet upgrade --plan`. */
export function upgradeCommand(program: Command, act: Act): void {
  const upgrade = program
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
    .addOption(new Option("-o, --output <format>", "the output format").choices(["table", "json"]).default("table"));
  withClusterFlags(upgrade).action(act(async () => (await import("./print-upgrade-plan.ts")).printUpgradePlan));
  withExamples(upgrade, "ramet upgrade --plan --cell-image registry.example/ramet-cell:2");
}
