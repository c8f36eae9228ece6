import type { Input } from "@pulumi/pulumi";
import { parseLabelSelector } from "../src/api/names/label-selector.ts";
import {
  type InstallOptions,
  parseServedNamespaces,
  requireDomain,
  requireOne,
} from "../src/install/install-options.ts";
import { keysOf, mapSettings } from "../src/install/setting-values.ts";
import type { SettingKey } from "../src/install/settings.ts";
import { validatedField, withRunError } from "./run-error.ts";

/** The key of checkpoints. */
export interface EncryptionArgs {
  /**
   * The Secret in the namespace `ramet-system`, which you create: its entry `current` names the entry with the key of 32 bytes
   * for new checkpoints. `none` encrypts only namespaces with the annotation `ramet.dev/encryption-secret`.
   */
  secret: Input<string>;
}

/** Protections of nodes from cells. They depend on what the nodes have. */
export interface CellArgs {
  /**
   * The path of the cells' seccomp profile in the kubelet's directory of profiles, for example `"ramet/cell.json"`. Install
   * `images/cell-seccomp.json` of the package there on every node. @default none: `Unconfined`
   */
  seccompProfile?: Input<string>;
  /**
   * When cells run in user namespaces: `always`, `never`, or `auto` if all schedulable nodes report that they support them.
   * @default "auto"
   */
  userNamespaces?: Input<"auto" | "always" | "never">;
  /** The writable layer of templates without a limit of `ephemeral-storage`. @default "10Gi" */
  writableLayerSize?: Input<string>;
  /**
   * A directory of each node, for example `"/var/lib/ramet/cache"`, in which sandboxes of a namespace share downloads and layers:
   * a `hostPath` volume of their Pods. @default none
   */
  nodeCachePath?: Input<string>;
  /** The limit of what a namespace has there on each node. @default "20Gi" */
  nodeCacheSize?: Input<string>;
  /**
   * What becomes of sandboxes whose Pods others end, as a drain does: `Migrate`, `Pause` or `End`. Templates and namespaces can set it.
   * @default `Migrate` with memory, `Pause` with files only
   */
  onDisruption?: Input<"Migrate" | "Pause" | "End">;
  /**
   * How many sandboxes of a leaving node move at the same time before their Pods are ended; of a namespace twice as many, and four
   * times as many in all. 0: none.
   * @default 4
   */
  concurrentMoves?: Input<number>;
  /**
   * The longest grace period that Pods get for a capture, by their limits or restored size and the store's speed.
   * @default "5m"
   */
  longestGracePeriod?: Input<string>;
  /**
   * How often a running sandbox is captured, to continue from there if its Pod is lost, such as `10m`; from `1m` to `24h`.
   * @default none
   */
  checkpointEvery?: Input<string>;
  /**
   * Cell images of earlier engines, each with the id of its engine, for example
   * `["3fb1c0a9d2e4=registry.example/ramet-cell:1"]`. Memory that needs such an engine is restored in that image.
   * @default those that the cluster remembers
   */
  earlierImages?: readonly Input<string>[];
}

/** How the controllers reach the registries from which they read how images are started. */
export interface RegistriesArgs {
  /**
   * Registries that may have addresses that are not public, as in image names, for example `"registry.internal:5000"`. Without
   * this, controllers connect to public addresses only, because the names of images come from users. @default none
   */
  private?: readonly Input<string>[];
  /** Registries that may have such addresses, and that are read by HTTP without TLS. @default none */
  insecure?: readonly Input<string>[];
  /**
   * Whether controllers read images' configurations. Without it, a sandbox whose template has no `command` runs nothing of its
   * own. @default true
   */
  lookup?: boolean;
  /**
   * How long sets and builds wait for an image that cannot be pulled before they fail with the registry's words, such as `"90s"`.
   * @default "3m"
   */
  pullTimeout?: Input<string>;
}

/** The limits of one namespace. */
export interface NamespaceQuotaArgs {
  /** The size of its checkpoints in the store, like `100Gi`. @default unlimited */
  storeBytes?: Input<string>;
  /** The number of its checkpoints, with those of pauses, of recipe steps and of versions. @default 10000 */
  checkpoints?: Input<number>;
  /** How many of its named snapshots build concurrently; others wait. @default 10 */
  builds?: Input<number>;
  /** How many files its recipes fetch concurrently; others wait. @default 2 */
  fetches?: Input<number>;
}

/** A rule is an IPv4 address, a range, a name, `*.name` or `*`, each with an optional `:port`. */
export interface EgressArgs {
  /** The default for connections without a rule: `allow` or `deny`. @default "allow" */
  default?: Input<"allow" | "deny">;
  /**
   * Destinations that sandboxes can connect to. Only a rule here that names an address or a range inside opens an address of
   * `clusterRanges`. @default none
   */
  allow?: readonly Input<string>[];
  /** Destinations that sandboxes cannot connect to. It precedes `allow`. @default none */
  deny?: readonly Input<string>[];
}

/** Each gateway counts its own connections. Beyond a limit it responds with 503. */
export interface GatewayArgs {
  /**
   * The networks of load balancers in front of the gateways, for example `["10.0.0.0/16"]`. Their `X-Forwarded-For` names the
   * client; the header of any other peer is then dropped. @default none
   */
  trustedProxies?: readonly Input<string>[];
  /** Connections of all clients. @default 10000 */
  maxConnections?: Input<number>;
  /** Connections of one IPv4 address or IPv6 /64 network. Lower it only with `trustedProxies`. @default 2500 */
  maxConnectionsPerClient?: Input<number>;
  /** Requests and upgraded connections in progress to one namespace. @default 5000 */
  maxConnectionsPerNamespace?: Input<number>;
  /** Requests and upgraded connections in progress to one sandbox. @default 1000 */
  maxConnectionsPerSandbox?: Input<number>;
  /**
   * Ask the API server about every token, also about tokens that its service account keys did not sign. It lets clients without
   * a token cost the API server reviews. @default false
   */
  acceptTokensByReviewOnly?: boolean;
  /**
   * Let clients with the verb `create` on `sandboxes/exec` run commands in sandboxes and transfer files. Otherwise gateways cannot
   * read the secret of the guests. @default true
   */
  exec?: boolean;
  /**
   * The Secret of the type `kubernetes.io/tls` in the namespace `ramet-system` with the certificate of the gateways, for example one
   * that cert-manager renews. They then serve TLS on port 443 and nothing else. You create the Secret.
   * @default they serve without TLS on port 80
   */
  tlsSecret?: Input<string>;
  /**
   * The domain of sandboxes, such as `"sandboxes.example.org"`: a port is `https://8000-<id>.sandboxes.example.org`. DNS must lead it and
   * all names below it to the gateways, which external-dns does. @default none
   */
  domain?: Input<string>;
  /**
   * The ClusterIssuer of cert-manager, with DNS challenges, for the domain and all names below it. @default none
   */
  tlsIssuer?: Input<string>;
  /** The type of the gateways' Service. @default "ClusterIP" */
  service?: Input<"ClusterIP" | "NodePort" | "LoadBalancer">;
  /** The class of an Ingress for the domain, such as `"nginx"`, which ends TLS with a certificate of `tlsIssuer`. @default none */
  ingress?: Input<string>;
  /** The Gateway for an HTTPRoute of the domain, which ends TLS: `"infra/public"` or `"infra/public/https"`. @default none */
  gatewayApi?: Input<string>;
  /** Annotations of the Service, the Ingress or the HTTPRoute. @default those for external-dns and cert-manager */
  annotations?: Record<string, Input<string>>;
  /**
   * The address of the gateways for users outside the cluster, for example `"https://gateway.example.org"`. The cluster publishes
   * it to authenticated users, and `ramet sandbox exec` uses it. @default that of the domain
   */
  url?: Input<string>;
  /**
   * The certificate authority that signed the certificate of `url`, as PEM. @default the certificate authorities of the users'
   * systems
   */
  ca?: Input<string>;
}

export interface ClientApiArgs {
  /** Number of replicas. @default 2 */
  replicas?: Input<number>;
  /**
   * The domain below which sandboxes have their host names, if it is not that of `gateway`. @default that of `gateway`, else the clients'
   * own setting
   */
  domain?: Input<string>;
}

/** Installation options of a program, whose values may be unknown yet. */
export type ProgramInstallOptions = InstallOptions<Input<string>, Input<number>>;

type Arguments = Partial<Omit<ProgramInstallOptions, "store">>;
type Required = "image" | "cellImage" | "replicas" | "gatewayReplicas" | "clusterRanges";

/**
 * The settings among the arguments of a program, validated as soon as they are known.
 * @param keys the settings to read
 * @param args have a value for each setting that an installation requires
 * @throws RunError
 */
export function validatedSettings<Args extends object>(
  keys: readonly SettingKey[],
  args: Args,
): Arguments & { [Key in Extract<keyof Args, Required>]: ProgramInstallOptions[Key] } {
  const { namespaceSelector, servedNamespaces, ...others }: Arguments = args;
  withRunError(() => {
    requireOne(others, "metricsNamespace");
    requireDomain(others.gateway);
  });
  const read = mapSettings(keys, { ...others, store: undefined }, (key, value) => {
    const valid = validatedField(key, value);
    // The arguments of a container are texts.
    return gatewayKeys.has(key) ? valid.apply(String) : valid;
  });
  const selector = namespaceSelector === undefined ? undefined : validatedField("namespaceSelector", namespaceSelector);
  return {
    ...(read as ProgramInstallOptions),
    ...(selector && {
      namespaceSelector: selector,
      namespaceRequirements: selector.apply((known) => parseLabelSelector(known, "namespaceSelector")),
    }),
    ...(servedNamespaces && { servedNamespaces: withRunError(() => parseServedNamespaces(servedNamespaces)) }),
  };
}

const gatewayKeys = new Set<SettingKey>(keysOf("gateway"));
