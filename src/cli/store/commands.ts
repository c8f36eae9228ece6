import { type Command, Option } from "commander";
import { defaultClusterName } from "../../local/cluster-directory.ts";
import type { Act } from "../report-error.ts";
import type { ScrubStoreOptions, StoreUsageOptions } from "./scrub.ts";

/** `ramet store …`. */
export function storeCommands(store: Command, act: Act): void {
  withStoreFlags(store.command("usage"))
    .description("Show what the checkpoints of each namespace take.")
    .action(
      act(async (options: StoreUsageOptions) => {
        const { storeUsage } = await import("./scrub.ts");
        return (io) => storeUsage(io, options);
      }),
    );
  withStoreFlags(store.command("scrub"))
    .description("Read every content and compare it with its hash. Changes nothing; exits with 1 if any is damaged.")
    .action(
      act(async (options: ScrubStoreOptions) => {
        const { scrubStore } = await import("./scrub.ts");
        return (io) => scrubStore(io, options);
      }),
    );
}

function withStoreFlags(command: Command): Command {
  return command
    .option("--path <place>", "a store's folder, or its address (default: the local cluster's folder)")
    .option("--name <name>", "the local cluster's name", defaultClusterName)
    .option("-n, --namespace <name>", "of this namespace alone (default: of all)")
    .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"));
}
