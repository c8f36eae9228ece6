import { wholeNumber } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

export function storeCommands(program: RametCommand): void {
  const store = program
    .command("store")
    .description("Inspect a checkpoint store.")
    .examples("ramet store usage", "ramet store scrub");
  withStoreFlags(store.command("usage"))
    .description("Show the space that the checkpoints of each namespace use.")
    .examples("ramet store usage", "ramet store usage --path 's3://checkpoints/ramet?region=eu-central-1'")
    .runs(async () => (await import("./inspect.ts")).storeUsage);
  withStoreFlags(store.command("scrub"))
    .description("Compare all stored data with its hashes. Changes nothing; exits with 1 if any is damaged.")
    .examples("ramet store scrub", "ramet store scrub --path /var/lib/ramet -n default")
    .runs(async () => (await import("./inspect.ts")).scrubStore);
}

function withStoreFlags(command: RametCommand): RametCommand {
  return command
    .option("--path <place>", "the directory or address of a store (default: the directory of a local cluster)")
    .option("--name <name>", "the name of the local cluster (default: that of KUBECONFIG, or default)")
    .option("-n, --namespace <name>", "only this namespace (default: all)")
    .formats();
}

export function gcCommand(program: RametCommand): void {
  program
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
    .formats(["table", "json", "yaml"])
    .clusterFlags()
    .examples(
      "ramet gc --dry-run                print what would be deleted, why, and its size",
      "ramet gc -A                       delete it in all namespaces",
      "ramet gc --step-cache-bytes 0     also delete all captured steps that no recipe uses",
    )
    .runs(async () => (await import("./collect-garbage.ts")).collectGarbage);
}
