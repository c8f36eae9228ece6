import { type Command, Option } from "commander";
import { withExamples, wholeNumber, withClusterFlags } from "../options.ts";
import type { Act } from "../report-error.ts";

/** `ramet store …`. */
export function storeCommands(store: Command, act: Act): void {
  const usage = withStoreFlags(store.command("usage"))
    .description("Show the space that the checkpoints of each namespace use.")
    .action(act(async () => (await import("./inspect.ts")).storeUsage));
  withExamples(usage, "ramet store usage", "ramet store usage --path 's3://checkpoints/ramet?region=eu-central-1'");
  const scrub = withStoreFlags(store.command("scrub"))
    .description("Compare all stored data with its hashes. Changes nothing; exits with 1 if any is damaged.")
    .action(act(async () => (await import("./inspect.ts")).scrubStore));
  withExamples(scrub, "ramet store scrub", "ramet store scrub --path /var/lib/ramet -n default");
}

function withStoreFlags(command: Command): Command {
  return command
    .option("--path <place>", "the directory or address of a store (default: the directory of a local cluster)")
    .option("--name <name>", "the name of the local cluster (default: that of KUBECONFIG, or default)")
    .option("-n, --namespace <name>", "only this namespace (default: all)")
    .addOption(new Option("-o, --output <format>", "the output format").choices(["table", "json"]).default("table"));
}

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
  withClusterFlags(gc).action(act(async () => (await import("./collect-garbage.ts")).collectGarbage));
  withExamples(
    gc,
    "ramet gc --dry-run                print what would be deleted, why, and its size",
    "ramet gc -A                       delete it in all namespaces",
    "ramet gc --step-cache-bytes 0     also delete all captured steps that no recipe uses",
  );
}
