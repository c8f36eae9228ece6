import type { Command } from "commander";
import { systemNamespace } from "../../api/system-names.ts";
import type { Act } from "../act.ts";
import { wholeNumber } from "../options.ts";
import type { ManifestsOptions } from "./manifests.ts";

/** `ramet manifests`. */
export function manifestsCommand(program: Command, act: Act): void {
  program
    .command("manifests")
    .description("Print what installs the controllers in a cluster, for kubectl apply and GitOps.")
    .requiredOption("--image <image>", "the image with this command")
    .requiredOption("--cell-image <image>", "the image with the cell, gVisor, guest and link")
    .option("-n, --namespace <name>", "the namespace of the controllers", systemNamespace)
    .option("--replicas <number>", "how many controllers stand by; one of them works", wholeNumber, 2)
    .option("--store-directory <folder>", "where checkpoints are kept", "/var/lib/ramet")
    .option("--store-claim <name>", "the PersistentVolumeClaim that is mounted there", "ramet-store")
    .option("--out <folder>", "write a kustomization and one file for each kind there (default: all to stdout)")
    .action(
      act(async (options: ManifestsOptions) => {
        const { printManifests } = await import("./manifests.ts");
        return (io) => printManifests(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet manifests --image example/ramet:1 --cell-image example/cell:1 | kubectl apply -f -
  $ ramet manifests --image example/ramet:1 --cell-image example/cell:1 --out ramet && kubectl apply -k ramet
`,
    );
}
