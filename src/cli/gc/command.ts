import { Option, type Command } from "commander";
import type { Act } from "../report-error.ts";
import { wholeNumber, withClusterFlags } from "../options.ts";
import type { CollectGarbageOptions } from "./collect-garbage.ts";

/** `ramet gc`. */
export function gcCommand(program: Command, act: Act): void {
  const gc = program
    .command("gc")
    .description("Delete objects and stored data that nothing needs any more, and print the reasons.")
    .option("--dry-run", "print what would be deleted, and delete nothing")
    .option("-A, --all-namespaces", "include all namespaces")
    .option(
      "--step-cache-bytes <number>",
      "the limit for captured recipe steps in each namespace (default: 21474836480, 20 GiB)",
      wholeNumber,
    )
    .option(
      "--store-path <place>",
      "the directory or address of the cluster's store (default: the local cluster's, if that is the cluster)",
    )
    .addOption(
      new Option("-o, --output <format>", "the output format").choices(["table", "json", "yaml"]).default("table"),
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
  $ ramet gc --dry-run                print what would be deleted, why, and its size
  $ ramet gc -A                       delete it in all namespaces
  $ ramet gc --step-cache-bytes 0     also delete all captured steps that no recipe uses
`,
    );
}
