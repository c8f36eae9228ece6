import { disruptionPolicies } from "../api/pod/disruption.ts";
import { besideProjects, cellUserNamespaces, systemNamespace } from "../api/names/system-names.ts";
import { defaultQuota } from "../api/quota/namespace-quota.ts";
import { httpServerCommands, httpServerSettings } from "./http-server-settings.ts";
import { privateRanges } from "./manifest.ts";
import {
  checkDirectory,
  checkEarlierImage,
  checkEngine,
  checkPort,
  checkRange,
  checkRegistry,
  list,
  number,
  off,
  on,
  secondOrMore,
  text,
} from "./setting.ts";

const storeAddresses =
  "s3://bucket/prefix?region=…&endpoint=…&path-style=true, gs://bucket/prefix, azblob://container/prefix?account=…";
const { checkpoints, builds, fetches } = defaultQuota;

/**
 * All settings of the servers and of an installation. A key is the path of an argument of `RametRuntime`, of an install option and
 * of what a server receives. The order is that of the arguments of containers.
 */
export const settings = {
  metricsPort: number(
    "--metrics-port <port>",
    "serve /metrics, /livez, /healthz and /readyz on this port (default: none)",
    { check: checkPort },
  ),
  metricsAddress: text("--metrics-address <ip>", "the IP address to listen on", { default: "127.0.0.1" }),
  kubeconfig: text(
    "--kubeconfig <file>",
    "the kubeconfig (default: the Pod's service account, else $KUBECONFIG, ~/.kube/config)",
  ),
  context: text("--context <name>", "the kubeconfig's context (default: the current one)"),
  logLevel: text("--log-level <level>", "the lowest level to log, as JSON lines on stderr", {
    choices: ["debug", "info", "warn", "error"],
    default: "info",
  }),
  beside: text(
    "--beside <project>",
    "work beside the controllers of this project: only named snapshots and garbage collection",
    { choices: besideProjects },
  ),
  leaderElect: on("--leader-elect", "elect a leader: of several replicas, one works"),
  installCrds: on("--install-crds", "install or update the CRDs first"),
  namespace: text("-n, --namespace <name>", "the namespace of controllers and gateways", {
    schema: "Label",
    default: systemNamespace,
  }),
  image: text("--image <image>", "the image that contains the ramet command", {
    schema: "Image",
    isRequired: true,
  }),
  replicas: number("--replicas <number>", "the number of controller replicas, of which one leads", {
    schema: "Positive",
    default: 2,
  }),
  gatewayReplicas: number("--gateway-replicas <number>", "the number of gateway replicas; 0 installs none", {
    schema: "Count",
    default: 2,
  }),
  "store.address": text("--store <address>", `the address of the store, instead of a directory: ${storeAddresses}`, {
    schema: "StoreAddress",
    manifests: { help: `where checkpoints are kept: ${storeAddresses}` },
  }),
  "store.roleArn": text("--store-role-arn <arn>", "S3: the IAM role that the controllers use (IRSA)", {
    schema: "RoleArn",
  }),
  "store.serviceAccount": text(
    "--store-service-account <email>",
    "Google Cloud: the email of the service account that the controllers use",
    { schema: "ServiceAccount" },
  ),
  "store.clientId": text(
    "--store-client-id <id>",
    "Azure: the managed identity that the controllers use (AKS workload identity)",
    { schema: "EntraId" },
  ),
  "store.tenantId": text("--store-tenant-id <id>", "Azure: that identity's tenant (default: the cluster's)", {
    schema: "EntraId",
  }),
  "store.secret": text(
    "--store-secret <name>",
    "a Secret with the store's keys, named like its environment variables",
    { schema: "ObjectName" },
  ),
  "store.directory": text(
    "--store-directory <directory>",
    "the directory of the store, which every node that runs cells mounts",
    {
      schema: "Directory",
      manifests: {
        help: "the directory of the store, instead of an address",
        default: "/var/lib/ramet",
        conflicts: ["store"],
      },
    },
  ),
  "store.claim": text("--store-claim <name>", "the PersistentVolumeClaim to mount there", {
    schema: "ObjectName",
    default: "ramet-store",
    conflicts: ["store"],
  }),
  "store.verifyRestores": off(
    "--no-verify-restores",
    "do not hash content at each restore from a directory: trust everyone who can write there",
  ),
  cellImage: text(
    "--cell-image <image>",
    "the image that contains the cell, gVisor, guest and link; required without --beside",
    { schema: "Image" },
  ),
  "cells.engine": text("--cell-engine <id>", "the engine of that image (default: its cells report it)", {
    check: checkEngine,
  }),
  "cells.seccompProfile": text(
    "--cell-seccomp-profile <path>",
    "the cells' seccomp profile, a path in the kubelet's directory of profiles (default: Unconfined)",
    { schema: "ProfilePath" },
  ),
  "cells.userNamespaces": text(
    "--cell-user-namespaces <when>",
    "run cells in user namespaces; auto: if all schedulable nodes support it (default: auto)",
    { choices: cellUserNamespaces, schema: "UserNamespaces" },
  ),
  "cells.writableLayerSize": text(
    "--writable-layer-size <quantity>",
    "what a sandbox can write if its template has no limit of ephemeral-storage (default: 10Gi)",
    { schema: "LayerSize" },
  ),
  "cells.nodeCachePath": text(
    "--node-cache-path <directory>",
    "keep downloads and layers for all sandboxes of a namespace in this directory of each node (default: each Pod has its own)",
    { check: checkDirectory, schema: "NodeDirectory" },
  ),
  "cells.nodeCacheSize": text(
    "--node-cache-size <quantity>",
    "the limit of what a namespace has there on each node (default: 20Gi)",
    { schema: "LayerSize" },
  ),
  "cells.onDisruption": text(
    "--on-disruption <policy>",
    "what becomes of sandboxes whose Pods others end, as a drain does (default: Migrate with memory, Pause with files only)",
    { choices: disruptionPolicies, schema: "OnDisruption" },
  ),
  "cells.concurrentMoves": number(
    "--concurrent-moves <count>",
    "how many sandboxes of a leaving node move at the same time before their Pods are ended; of a namespace twice, in all four times as many (default: 4; 0: none)",
    { schema: "Count" },
  ),
  "cells.longestGracePeriod": text(
    "--longest-grace-period <duration>",
    "the longest grace period that Pods get for a capture, by their limits or restored size and the store's speed (default: 5m)",
    { check: secondOrMore("--longest-grace-period"), schema: "Period" },
  ),
  "cells.checkpointEvery": text(
    "--checkpoint-every <duration>",
    "how often running sandboxes are captured, to continue from there if their Pods are lost: 1m to 24h; none: never, whatever namespaces and templates have (default: as they have)",
    { schema: "CheckpointEvery" },
  ),
  "cells.earlierImages": list(
    "--earlier-cell-image <engine=image...>",
    "images of earlier engines, besides those that the cluster remembers",
    { check: checkEarlierImage, schema: "EarlierImage" },
  ),
  "cells.concurrentUpgrades": number(
    "--concurrent-upgrades <count>",
    "how many named snapshots are captured again at the same time after an upgrade (default: 2; 0: none)",
  ),
  "cells.engineCheckInterval": text(
    "--engine-check-interval <duration>",
    "the pause between two checks for cell images of earlier engines that nothing needs (default: 10m)",
    { check: secondOrMore("--engine-check-interval") },
  ),
  "registries.private": list(
    "--private-registry <host...>",
    "registries, as host or host:port, that may have private addresses (default: none)",
    { check: checkRegistry, schema: "Registry" },
  ),
  "registries.insecure": list(
    "--insecure-registry <host...>",
    "registries that may have private addresses and are read by HTTP without TLS (default: none)",
    { check: checkRegistry, schema: "Registry" },
  ),
  "registries.lookup": off("--no-image-lookup", "do not read from registries how images are started"),
  "registries.pullTimeout": text(
    "--pull-timeout <duration>",
    "how long sets and builds wait for an image that cannot be pulled (default: 3m)",
    { check: secondOrMore("--pull-timeout"), schema: "Period" },
  ),
  dnsUpstreams: list(
    "--dns-upstream <ip...>",
    "the resolvers for sandboxes' DNS queries (default: the Pod's resolvers)",
  ),
  clusterRanges: list("--cluster-range <cidr...>", "IPv4 ranges that are denied to sandboxes (default: none)", {
    check: checkRange,
    schema: "ClusterRange",
    manifests: {
      help: `IPv4 ranges of the cluster's Pods, Services and nodes, which are denied to sandboxes (default: ${privateRanges.join(" ")})`,
    },
  }),
  noClusterRanges: off("--no-cluster-range", "deny no ranges of the cluster to sandboxes"),
  clusterDomain: text(
    "--cluster-domain <name>",
    "the cluster's DNS domain, whose names sandboxes cannot resolve (default: cluster.local)",
    {
      schema: "ObjectName",
      manifests: { help: "the cluster's DNS domain, whose names sandboxes cannot resolve" },
    },
  ),
  namespaceSelector: text(
    "--namespace-selector <selector>",
    "the labels of the namespaces that the controllers serve, such as team=a or !legacy (default: all namespaces)",
    { schema: "Selector" },
  ),
  "egress.default": text("--egress-default <action>", "connections of sandboxes without a rule (default: allow)", {
    choices: ["allow", "deny"],
    schema: "EgressDefault",
  }),
  "egress.allow": list(
    "--egress-allow <rule...>",
    "what sandboxes can connect to: addresses, ranges, names, *.names, each with an optional :port",
    { schema: "Rule" },
  ),
  "egress.deny": list("--egress-deny <rule...>", "what sandboxes cannot connect to; precedes --egress-allow", {
    schema: "Rule",
  }),
  servedNamespaces: list(
    "--served-namespace <name...>",
    "the only namespaces whose sandboxes run; the servers need no rights in others (default: all)",
    { schema: "ServedNamespace" },
  ),
  "namespaceQuota.storeBytes": text(
    "--namespace-store-bytes <quantity>",
    "the limit for a namespace's checkpoints in the store, like 100Gi (default: unlimited)",
    { schema: "StoreBytes" },
  ),
  "namespaceQuota.checkpoints": text(
    "--namespace-checkpoints <number>",
    `the limit for the checkpoints of a namespace, or unlimited (default: ${checkpoints})`,
    { schema: "Checkpoints" },
  ),
  "namespaceQuota.builds": text(
    "--namespace-builds <number>",
    `how many named snapshots of a namespace build concurrently, or unlimited (default: ${builds})`,
    { schema: "Builds" },
  ),
  "namespaceQuota.fetches": text(
    "--namespace-fetches <number>",
    `how many files the recipes of a namespace fetch concurrently, or unlimited (default: ${fetches})`,
    { schema: "Fetches" },
  ),
  concurrency: number("--concurrency <number>", "the number of concurrent reconciles per kind (default: 16)"),
  stepCacheBytes: number(
    "--step-cache-bytes <number>",
    "the limit for captured recipe steps in each namespace (default: 21474836480, 20 GiB)",
  ),
  "encryption.secret": text(
    "--encryption-secret <name>",
    "encrypt checkpoints with the key in this Secret of ramet-system",
    {
      schema: "ObjectName",
      manifests: {
        help: "encrypt checkpoints with the key in this Secret of ramet-system (default: no encryption)",
      },
    },
  ),
  importVolumes: on(
    "--import-volumes",
    "let users with the verb import on checkpoints import volumes by the handles of their snapshots (default: nobody can)",
  ),
  metricsNamespace: text(
    "--metrics-namespace <name>",
    "the only namespace that can read metrics, that of Prometheus (default: namespaces labeled ramet.dev/allow-metrics=true)",
    { schema: "Label" },
  ),
  metricsFromAllNamespaces: on(
    "--metrics-from-all-namespaces",
    "let every Pod read metrics, which name objects of all tenants",
    { conflicts: ["metricsNamespace"] },
  ),
  monitoring: on("--monitoring", "add ServiceMonitors and alerts for the Prometheus operator, and a Grafana dashboard"),
  ...httpServerSettings,
  out: text("--out <directory>", "write a kustomization and one file per kind into this directory (default: stdout)"),
};

/**
 * The settings that each command takes, in the order of its help. Those that a server and `manifests` take are arguments of the
 * server's container.
 */
export const commands = {
  controller: [
    "metricsPort metricsAddress kubeconfig context logLevel servedNamespaces",
    "egress.default egress.allow egress.deny",
    "namespaceQuota.storeBytes namespaceQuota.checkpoints namespaceQuota.builds namespaceQuota.fetches",
    "cells.seccompProfile cells.userNamespaces cells.writableLayerSize cells.nodeCachePath cells.nodeCacheSize cells.onDisruption cells.concurrentMoves cells.longestGracePeriod cells.checkpointEvery",
    "registries.private registries.insecure registries.lookup registries.pullTimeout",
    "store.directory store.verifyRestores store.address encryption.secret importVolumes",
    "cellImage cells.engine cells.earlierImages cells.concurrentUpgrades cells.engineCheckInterval",
    "beside installCrds leaderElect dnsUpstreams clusterDomain clusterRanges namespaceSelector",
    "concurrency stepCacheBytes",
  ],
  gateway: ["metricsPort metricsAddress kubeconfig context logLevel servedNamespaces", ...httpServerCommands.gateway],
  "client-api": [
    "metricsPort metricsAddress kubeconfig context logLevel servedNamespaces",
    ...httpServerCommands["client-api"],
  ],
  manifests: [
    "servedNamespaces egress.default egress.allow egress.deny",
    "namespaceQuota.storeBytes namespaceQuota.checkpoints namespaceQuota.builds namespaceQuota.fetches",
    "cells.seccompProfile cells.userNamespaces cells.writableLayerSize cells.nodeCachePath cells.nodeCacheSize cells.onDisruption cells.concurrentMoves cells.longestGracePeriod cells.checkpointEvery",
    "registries.private registries.insecure registries.lookup registries.pullTimeout",
    "image cellImage cells.earlierImages beside namespace replicas gatewayReplicas",
    ...httpServerCommands.manifests,
    "clusterRanges clusterDomain namespaceSelector noClusterRanges encryption.secret importVolumes",
    "store.address store.roleArn store.serviceAccount store.clientId store.tenantId store.secret",
    "store.directory store.claim out",
  ],
} as const;

export type SettingKey = keyof typeof settings;

/** The settings that have an effect where other controllers run the sandboxes and store their checkpoints. */
export const besideSettings = [
  "metricsPort metricsAddress kubeconfig context logLevel beside leaderElect installCrds namespace image replicas",
  "clusterRanges namespaceSelector namespaceQuota.builds namespaceQuota.fetches concurrency",
  "metricsNamespace metricsFromAllNamespaces monitoring out",
] as const;
