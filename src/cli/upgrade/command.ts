import { type Command, Option } from "commander";
import { checkEngine } from "../../install/setting.ts";
import { parsed, withClusterFlags } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { UpgradeOptions } from "./print-upgrade-plan.ts";

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
  withClusterFlags(upgrade)
    .action(
      act(async (options: UpgradeOptions) => {
        const { printUpgradePlan } = await import("./print-upgrade-plan.ts");
        return (io) => printUpgradePlan(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet upgrade --plan --cell-image registry.example/ramet-cell:2
`,
    );
}
