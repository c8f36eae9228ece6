import { Option, type Command } from "commander";
import { systemNamespace } from "../../api/names/system-names.ts";
import { privateRanges } from "../../install/manifest.ts";
import type { Act } from "../report-error.ts";
import { collectRange, storeAddresses, wholeNumber } from "../options.ts";
import type { ManifestsOptions } from "./manifests.ts";

/** `ramet manifests`. */
export function manifestsCommand(program: Command, act: Act): void {
  program
    .command("manifests")
    .description("Print what installs the controllers and gateways in a cluster, for kubectl apply and GitOps.")
    .requiredOption("--image <image>", "the image with this command")
    .requiredOption("--cell-image <image>", "the image with the cell, gVisor, guest and link")
    .option("-n, --namespace <name>", "the namespace of controllers and gateways", systemNamespace)
    .option("--replicas <number>", "how many controllers stand by; one of them works", wholeNumber, 2)
    .option("--gateway-replicas <number>", "how many gateways work; 0: none", wholeNumber, 2)
    .option(
      "--cluster-range <cidr...>",
      `IPv4 ranges of the cluster's Pods, Services and nodes, which sandboxes do not reach (default: ${privateRanges.join(" ")})`,
      collectRange,
    )
    .option("--no-cluster-range", "let sandboxes reach them")
    .option("--store <address>", `where checkpoints are kept: ${storeAddresses}`)
    .option("--store-role-arn <arn>", "of S3: the IAM role with which the controllers reach it (IRSA)")
    .option("--store-service-account <email>", "of Google: the email of the service account as which they do")
    .option("--store-client-id <id>", "of Azure: the managed identity with which they do (AKS workload identity)")
    .option("--store-tenant-id <id>", "of Azure: that identity's tenant (default: the cluster's)")
    .option("--store-secret <name>", "or a Secret with the keys, named as the store's variables of the environment")
    .addOption(
      new Option("--store-directory <folder>", "in place of an address, the folder where checkpoints are kept")
        .default("/var/lib/ramet")
        .conflicts("store"),
    )
    .addOption(
      new Option("--store-claim <name>", "the PersistentVolumeClaim that is mounted there")
        .default("ramet-store")
        .conflicts("store"),
    )
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
  $ ramet manifests --image example/ramet:1 --cell-image example/cell:1 --store s3://checkpoints | kubectl apply -f -
  $ ramet manifests --image example/ramet:1 --cell-image example/cell:1 --out ramet && kubectl apply -k ramet
`,
    );
}
