import { Option, type Command } from "commander";
import { systemNamespace } from "../../api/names/system-names.ts";
import { privateRanges } from "../../install/manifest.ts";
import type { Act } from "../report-error.ts";
import { wholeNumber } from "../options.ts";
import {
  besideOption,
  collectEarlierImage,
  collectNetwork,
  collectRange,
  flagsOfCells,
  importVolumesHelp,
  namespaceSelectorHelp,
  storeAddresses,
  withCellFlags,
  withEgressFlags,
  withQuotaFlags,
  withServedNamespaceFlag,
  withRegistryFlags,
} from "../server-options.ts";
import type { ManifestsOptions } from "./manifests.ts";

/** The options without an effect where other controllers run the sandboxes: no gateway can reach them. */
const flagsOfGateways = [
  "gatewayReplicas",
  "clientApiReplicas",
  "clientApiDomain",
  "gatewayTlsSecret",
  "gatewayUrl",
  "gatewayCaFile",
  "gatewayExec",
  "gatewayTrustedProxy",
  "gatewayMaxConnections",
  "gatewayMaxConnectionsPerClient",
  "gatewayMaxConnectionsPerNamespace",
  "gatewayMaxConnectionsPerSandbox",
  "gatewayAcceptTokensByReviewOnly",
  "storeRoleArn",
  "storeServiceAccount",
  "storeClientId",
  "storeTenantId",
  "storeSecret",
  "storeClaim",
];

/** `ramet manifests`. */
export function manifestsCommand(program: Command, act: Act): void {
  withRegistryFlags(
    withCellFlags(withQuotaFlags(withEgressFlags(withServedNamespaceFlag(program.command("manifests"))))),
  )
    .description("Print the manifests that install the controllers and gateways, for kubectl apply and GitOps.")
    .requiredOption("--image <image>", "the image that contains the ramet command")
    .option(
      "--cell-image <image>",
      "the image that contains the cell, gVisor, guest and link; required without --beside",
    )
    .option(
      "--earlier-cell-image <engine=image...>",
      "images of earlier engines, besides those that the cluster remembers",
      collectEarlierImage,
    )
    .addOption(besideOption().conflicts([...flagsOfCells, ...flagsOfGateways]))
    .option("-n, --namespace <name>", "the namespace of controllers and gateways", systemNamespace)
    .option("--replicas <number>", "the number of controller replicas, of which one leads", wholeNumber, 2)
    .option("--gateway-replicas <number>", "the number of gateway replicas; 0 installs none", wholeNumber, 2)
    .option("--client-api-replicas <number>", "the number of client API replicas; 0 installs none", wholeNumber, 0)
    .option("--client-api-domain <name>", "the domain of sandboxes' host names (default: the clients' own setting)")
    .option(
      "--gateway-tls-secret <name>",
      "the Secret with the gateways' certificate (default: they serve without TLS)",
    )
    .option("--gateway-url <url>", "the gateways' address for users, which the cluster then publishes (default: none)")
    .option("--gateway-ca-file <file>", "the certificate authority of that address, PEM (default: the users' systems')")
    .option("--no-gateway-exec", "do not let clients enter sandboxes through the gateways")
    .option(
      "--metrics-namespace <name>",
      "the only namespace that can read metrics, that of Prometheus (default: namespaces labeled ramet.dev/allow-metrics=true)",
    )
    .addOption(
      new Option(
        "--metrics-from-all-namespaces",
        "let every Pod read metrics, which name objects of all tenants",
      ).conflicts("metricsNamespace"),
    )
    .option(
      "--gateway-trusted-proxy <cidr...>",
      "the networks of load balancers in front of the gateways, whose X-Forwarded-For names the client (default: none)",
      collectNetwork,
    )
    .option("--gateway-max-connections <number>", "a gateway's limit for connections (default: 10000)", wholeNumber)
    .option(
      "--gateway-max-connections-per-client <number>",
      "its limit for one client address, or one IPv6 /64 network (default: 2500)",
      wholeNumber,
    )
    .option(
      "--gateway-max-connections-per-namespace <number>",
      "its limit for requests and upgraded connections to one namespace (default: 5000)",
      wholeNumber,
    )
    .option(
      "--gateway-max-connections-per-sandbox <number>",
      "its limit for requests and upgraded connections to one sandbox (default: 1000)",
      wholeNumber,
    )
    .option(
      "--gateway-accept-tokens-by-review-only",
      "let gateways ask the API server about every token, for tokens of other authenticators",
    )
    .option(
      "--cluster-range <cidr...>",
      `IPv4 ranges of the cluster's Pods, Services and nodes, which are denied to sandboxes (default: ${privateRanges.join(" ")})`,
      collectRange,
    )
    .option("--cluster-domain <name>", "the cluster's DNS domain, whose names sandboxes cannot resolve")
    .option("--namespace-selector <selector>", namespaceSelectorHelp)
    .option("--no-cluster-range", "deny no ranges of the cluster to sandboxes")
    .option(
      "--encryption-secret <name>",
      "encrypt checkpoints with the key in this Secret of ramet-system (default: no encryption)",
    )
    .option("--import-volumes", importVolumesHelp)
    .option("--store <address>", `where checkpoints are kept: ${storeAddresses}`)
    .option("--store-role-arn <arn>", "S3: the IAM role that the controllers use (IRSA)")
    .option(
      "--store-service-account <email>",
      "Google Cloud: the email of the service account that the controllers use",
    )
    .option("--store-client-id <id>", "Azure: the managed identity that the controllers use (AKS workload identity)")
    .option("--store-tenant-id <id>", "Azure: that identity's tenant (default: the cluster's)")
    .option("--store-secret <name>", "a Secret with the store's keys, named like its environment variables")
    .addOption(
      new Option("--store-directory <directory>", "the directory of the store, instead of an address")
        .default("/var/lib/ramet")
        .conflicts("store"),
    )
    .addOption(
      new Option("--store-claim <name>", "the PersistentVolumeClaim to mount there")
        .default("ramet-store")
        .conflicts("store"),
    )
    .option("--out <directory>", "write a kustomization and one file per kind into this directory (default: stdout)")
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
  $ ramet manifests --image example/ramet:1 --beside=openkruise | kubectl apply -f -
`,
    );
}
