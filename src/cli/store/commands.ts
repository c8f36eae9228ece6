import { type Command, Option } from "commander";
import { withExamples } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { ScrubStoreOptions, StoreUsageOptions } from "./inspect.ts";

/** `ramet store …`. */
export function storeCommands(store: Command, act: Act): void {
  const usage = withStoreFlags(store.command("usage"))
    .description("Show the space that the checkpoints of each namespace use.")
    .action(
      act(async (options: StoreUsageOptions) => {
        const { storeUsage } = await import("./inspect.ts");
        return (io) => storeUsage(io, options);
      }),
    );
  withExamples(usage, "ramet store usage", "ramet store usage --path 's3://checkpoints/ramet?region=eu-central-1'");
  const scrub = withStoreFlags(store.command("scrub"))
    .description("Compare all stored data with its hashes. Changes nothing; exits with 1 if any is damaged.")
    .action(
      act(async (options: ScrubStoreOptions) => {
        const { scrubStore } = await import("./inspect.ts");
        return (io) => scrubStore(io, options);
      }),
    );
  withExamples(scrub, "ramet store scrub", "ramet store scrub --path /var/lib/ramet -n default");
}

function withStoreFlags(command: Command): Command {
  return command
    .option("--path <place>", "the directory or address of a store (default: the directory of a local cluster)")
    .option("--name <name>", "the name of the local cluster (default: that of KUBECONFIG, or default)")
    .option("-n, --namespace <name>", "only this namespace (default: all)")
    .addOption(new Option("-o, --output <format>", "the output format").choices(["table", "json"]).default("table"));
}
