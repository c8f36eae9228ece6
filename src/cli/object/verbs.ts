import type { Command } from "commander";
import { withClusterFlags, withOutputFlag, withWaitFlags } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { GetOptions, ListOptions } from "./get.ts";
import type { RemoveOptions } from "./remove.ts";
import type { UserKindName } from "./user-kind.ts";

/** `ls`, which every kind has. */
export function listCommand(parent: Command, kind: UserKindName, act: Act): void {
  const command = parent
    .command("ls")
    .alias("list")
    .description(`List each ${kind}.`)
    .option("-A, --all-namespaces", "of every namespace")
    .option("-l, --selector <labels>", "only those with these labels, as kubectl takes them");
  withOutputFlag(command);
  withClusterFlags(command).action(
    act(async (options: Omit<ListOptions, "kind">) => {
      const { listObjects } = await import("./get.ts");
      return (io) => listObjects(io, { ...options, kind });
    }),
  );
}

/** `get`. */
export function getCommand(parent: Command, kind: UserKindName, act: Act): void {
  const command = parent
    .command("get")
    .description(`Show a ${kind}.`)
    .argument("<name...>", kind === "checkpoint" ? "names or ids" : "names");
  withOutputFlag(command);
  withClusterFlags(command).action(
    act(async (names: string[], options: Omit<GetOptions, "kind" | "names">) => {
      const { getObjects } = await import("./get.ts");
      return (io) => getObjects(io, { ...options, kind, names });
    }),
  );
}

/** `rm`. */
export function removeCommand(parent: Command, kind: UserKindName, act: Act): void {
  const command = parent
    .command("rm")
    .alias("delete")
    .description(`Remove a ${kind}.${whatStays[kind] ?? ""}`)
    .argument("<name...>", kind === "checkpoint" ? "names or ids" : "names")
    .option("--ignore-not-found", "take what does not exist as removed");
  withWaitFlags(command, "until it is gone");
  withClusterFlags(command).action(
    act(async (names: string[], options: Omit<RemoveOptions, "kind" | "names">) => {
      const { removeObjects } = await import("./remove.ts");
      return (io) => removeObjects(io, { ...options, kind, names });
    }),
  );
}

const whatStays: Partial<Record<UserKindName, string>> = {
  checkpoint: " Its clones stay.",
  set: " Claimed sandboxes stay.",
  claim: " Its sandboxes stay.",
  snapshot: " Its versions stay as Checkpoints, unless its deletionPolicy is Delete.",
};
