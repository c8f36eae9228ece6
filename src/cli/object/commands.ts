import { InvalidArgumentError } from "commander";
import type { RametCommand } from "../ramet-command.ts";
import type { GetOptions, ListOptions } from "./get.ts";
import type { UserKindName } from "./user-kind.ts";

/** `ramet get` and `ramet rm`, with the arguments that kubectl takes. */
export function objectCommands(program: RametCommand): void {
  program
    .command("get")
    .description("Show the objects of a kind, sorted by namespace and name, or those with the given names.")
    .argument("<kind>", kindHelp, kindName)
    .argument("[name...]", "names, or ids of checkpoints (default: all)")
    .option("-A, --all-namespaces", "include all namespaces")
    .outputFlag()
    .clusterFlags()
    .examples("ramet get sandboxes -A", "ramet get template python -o yaml")
    .usesCluster(
      async () => {
        const { listObjects, getObjects } = await import("./get.ts");
        return (io, cluster, options: ListOptions & GetOptions) =>
          options.names.length === 0 ? listObjects(io, cluster, options) : getObjects(io, cluster, options);
      },
      "kind",
      "names",
    );
  program
    .command("rm")
    .description("Delete objects by name.")
    .argument("<kind>", kindHelp, kindName)
    .argument("<name...>", "names, or ids of checkpoints")
    .option("--ignore-not-found", "ignore objects that do not exist")
    .waitFlags("until it is deleted")
    .clusterFlags()
    .examples("ramet rm sandbox a b", "ramet rm template python --ignore-not-found")
    .usesCluster(async () => (await import("./remove.ts")).removeObjects, "kind", "names");
}

export const kindHelp = "sandbox, checkpoint, template, set, claim, snapshot or key";

/** The accepted spellings of each kind: Ramet's, and kubectl's plurals and short names. */
const spellings: Readonly<Record<UserKindName, readonly string[]>> = {
  sandbox: ["sandbox", "sandboxes", "sbx"],
  checkpoint: ["checkpoint", "checkpoints", "cp"],
  template: ["template", "templates", "sandboxtemplate", "sandboxtemplates", "sbt"],
  set: ["set", "sets", "sandboxset", "sandboxsets", "sbs"],
  claim: ["claim", "claims", "sandboxclaim", "sandboxclaims", "sbc"],
  snapshot: ["snapshot", "snapshots", "namedsnapshot", "namedsnapshots", "nsnap"],
  key: ["key", "keys", "apikey", "apikeys", "ak"],
};

export function kindName(text: string): UserKindName {
  const found = kindSpelled(text);
  if (found === undefined) throw new InvalidArgumentError(`it must be ${kindHelp}`);
  return found;
}

export function kindSpelled(text: string): UserKindName | undefined {
  const word = text.toLowerCase();
  return (Object.keys(spellings) as UserKindName[]).find((name) => spellings[name].includes(word));
}

export function listCommand(parent: RametCommand, kind: UserKindName): void {
  parent
    .command("ls")
    .alias("list")
    .description(`List ${pluralOf(kind)}, sorted by namespace and name.`)
    .option("-A, --all-namespaces", "include all namespaces")
    .option("-l, --selector <labels>", "a label selector, with kubectl's syntax")
    .outputFlag()
    .clusterFlags()
    .examples(`ramet ${kind} ls`, `ramet ${kind} ls -A -o name`)
    .setOptionValue("kind", kind)
    .usesCluster(async () => (await import("./get.ts")).listObjects);
}

export function getCommand(parent: RametCommand, kind: UserKindName): void {
  parent
    .command("get")
    .description(`Show one or more ${pluralOf(kind)}.`)
    .argument("<name...>", kind === "checkpoint" ? "names or ids" : "names")
    .outputFlag()
    .clusterFlags()
    .examples(`ramet ${kind} get a b`, `ramet ${kind} get a -o yaml`)
    .setOptionValue("kind", kind)
    .usesCluster(async () => (await import("./get.ts")).getObjects, "names");
}

export function removeCommand(parent: RametCommand, kind: UserKindName): void {
  const failed = failedHelp[kind];
  const command = parent
    .command("rm")
    .alias("delete")
    .description(`Delete one or more ${pluralOf(kind)}.${whatStays[kind] ?? ""}`)
    .argument("[name...]", kind === "checkpoint" ? "names or ids" : "names")
    .option("--ignore-not-found", "ignore objects that do not exist");
  if (failed !== undefined) command.option("--failed", failed);
  command
    .waitFlags("until it is deleted")
    .clusterFlags()
    .examples(
      `ramet ${kind} rm a b`,
      failed === undefined ? `ramet ${kind} rm a --ignore-not-found` : `ramet ${kind} rm --failed`,
    )
    .setOptionValue("kind", kind)
    .usesCluster(async () => (await import("./remove.ts")).removeObjects, "names");
}

/** Returns the plural of a kind in a description. `ramet keys` is about other keys. */
function pluralOf(kind: UserKindName): string {
  if (kind === "key") return "API keys";
  return kind === "sandbox" ? "sandboxes" : `${kind}s`;
}

/** For the kinds whose objects can fail for good. */
const failedHelp: Partial<Record<UserKindName, string>> = {
  sandbox: "delete all sandboxes of the namespace that have failed or ended",
  checkpoint: "delete all checkpoints of the namespace that have failed",
  claim: "delete all claims of the namespace that ended without all their sandboxes",
};

const whatStays: Partial<Record<UserKindName, string>> = {
  checkpoint: " Their clones are kept.",
  set: " Claimed sandboxes are kept.",
  claim: " Their sandboxes are kept.",
  snapshot: " Their versions are kept as Checkpoints, unless the deletionPolicy is Delete.",
};
