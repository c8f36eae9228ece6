import { Option, type Command } from "commander";
import type { Act } from "../report-error.ts";
import { wholeNumber, withClusterFlags } from "../options.ts";
import type { CollectGarbageOptions } from "./collect-garbage.ts";

/** `ramet gc`. */
export function gcCommand(program: Command, act: Act): void {
  const gc = program
    .command("gc")
    .description("Remove what nobody needs any more, and say why.")
    .option("--dry-run", "show what would go, and remove nothing")
    .option("-A, --all-namespaces", "in all namespaces")
    .option(
      "--step-cache-bytes <number>",
      "what captured steps of recipes may take in each namespace (default: 21474836480, 20 GiB)",
      wholeNumber,
    )
    .option(
      "--store-path <place>",
      "the cluster's store, a folder or an address (default: that of the local cluster, where that is the cluster)",
    )
    .addOption(
      new Option("-o, --output <format>", "what to print").choices(["table", "json", "yaml"]).default("table"),
    );
  withClusterFlags(gc)
    .action(
      act(async (options: CollectGarbageOptions) => {
        const { collectGarbage } = await import("./collect-garbage.ts");
        return (io) => collectGarbage(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet gc --dry-run                what would go, why, and how much that is; what the store would lose
  $ ramet gc -A                       in every namespace, now
  $ ramet gc --step-cache-bytes 0     with all captured steps that no recipe has any more
`,
    );
}
