import { parseRuntimeEgress } from "../api/egress/effective-egress.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import { type StoreLocation, parseStoreAddress } from "../api/store/store-address.ts";
import { RametError } from "../base/errors.ts";
import * as schemas from "./setting-schemas.ts";
import {
  type KeyOf,
  type SettingsCommand,
  type SettingsTree,
  flagName,
  keysOf,
  mapSettings,
} from "./setting-values.ts";
import type { Setting } from "./setting.ts";
import { type SettingKey, settings } from "./settings.ts";

/** The settings of an installation. The type parameters let Pulumi components pass outputs instead of plain values. */
export interface InstallOptions<Text = string, Count = number>
  extends
    Omit<
      SettingsTree<KeyOf<"manifests">, Text, Count>,
      "store" | "servedNamespaces" | "beside" | "out" | "noClusterRanges" | keyof Needed<Text, Count>
    >,
    Needed<Text, Count> {
  /** Annotations of what leads clients to the gateways: their Service, Ingress or HTTPRoute. */
  gatewayAnnotations?: Record<string, unknown> | undefined;
  /** Annotations of the controllers' Deployment and ClusterRole, which name their owner. */
  annotations?: Record<string, string>;
  store: MountedStore<Text> | RemoteStore<Text>;
  servedNamespaces?: readonly string[] | undefined;
  /** The `matchExpressions` for `namespaceSelector`: what `parseLabelSelector` returns, or an output of that. */
  namespaceRequirements?: unknown;
}

interface Needed<Text, Count> {
  /** The namespace of the controllers. Their lease and the key of the cells are always in `ramet-system`. */
  namespace: string;
  image: Text;
  cellImage: Text;
  replicas: Count;
  gatewayReplicas: Count;
  clusterRanges: readonly Text[];
}

/** A PersistentVolumeClaim in the controllers' namespace and its mount path. */
export interface MountedStore<Text = string> {
  directory: Text;
  claim: Text;
}

/**
 * Validates the flags of `ramet manifests`.
 * @throws RametError `InvalidArgument`, which names the first invalid flag
 */
export function parseInstallOptions(given: InstallOptions): InstallOptions {
  const egress = given.egress && parseRuntimeEgress(given.egress, egressFlagNames("manifests"));
  const parsed = parseFlags(keysOf("manifests"), given);
  const { servedNamespaces, store } = given;
  if ("address" in store) requireOwnIdentity(store);
  return {
    ...(parsed as InstallOptions),
    egress,
    ...(servedNamespaces && { servedNamespaces: parseServedNamespaces(servedNamespaces, "manifests") }),
  };
}

/** Validates those flags of `ramet manifests` that an installation uses. @throws RametError `InvalidArgument` */
export function parseFlags(keys: readonly SettingKey[], given: Partial<InstallOptions>): object {
  const { namespaceSelector } = given;
  requireOne(given, flagName("metricsNamespace", "manifests"));
  requirePathOfCache(given.cells, "manifests");
  requireDomain(given.gateway, "manifests");
  return {
    ...mapSettings(keys, given, (key, value) => parseSetting(key, value, flagName(key, "manifests"))),
    ...(namespaceSelector !== undefined && {
      namespaceRequirements: parseLabelSelector(namespaceSelector, flagName("namespaceSelector", "manifests")),
    }),
  };
}

/**
 * Validates the value of a setting, or an item of its list.
 * @param name of the flag or argument, for the error
 * @throws RametError `InvalidArgument`
 */
export function parseSetting(key: SettingKey, value: unknown, name: string = key): unknown {
  const { schema }: Setting = settings[key];
  if (schema === undefined) return value;
  const { success, data, error } = schemas[schema].safeParse(value);
  if (success) return data;
  throw new RametError("InvalidArgument", `${name} ${error.issues[0]?.message ?? "is not valid"}`);
}

/** @throws RametError `InvalidArgument`, which names the flag of the command or, without one, the argument */
export function parseServedNamespaces(namespaces: readonly string[], command?: SettingsCommand): string[] {
  const name = command === undefined ? "servedNamespaces" : flagName("servedNamespaces", command);
  if (namespaces.length > 0) {
    return [...new Set(namespaces.map((namespace) => parseSetting("servedNamespaces", namespace, name) as string))];
  }
  throw new RametError("InvalidArgument", `${name} contains no namespace`, {
    hint: "Name at least one namespace, or omit it to serve all",
  });
}

export function egressFlagNames(command: "controller" | "manifests") {
  const [fallback, allow, deny] = (["default", "allow", "deny"] as const).map((name) =>
    flagName(`egress.${name}`, command),
  );
  return { default: fallback ?? "", allow: allow ?? "", deny: deny ?? "" };
}

/** Checks the two settings for readers of metrics. @throws RametError `InvalidArgument` if both settings are given */
export function requireOne(
  given: Pick<
    SettingsTree<"metricsNamespace" | "metricsFromAllNamespaces", unknown>,
    "metricsNamespace" | "metricsFromAllNamespaces"
  >,
  name: string,
): void {
  if (given.metricsNamespace === undefined || given.metricsFromAllNamespaces !== true) return;
  throw new RametError("InvalidArgument", `${name} names one namespace, but all namespaces are to read metrics`, {
    hint: "Set one of the two",
  });
}

/** @throws RametError `InvalidArgument` for settings of the gateways' domain without the domain, or two in front of the gateways */
export function requireDomain(
  gateway: SettingsTree<KeyOf<"manifests">, unknown, unknown>["gateway"],
  command?: "manifests",
): void {
  const named = (name: "domain" | "tlsIssuer" | "ingress" | "gatewayApi") =>
    command === undefined ? `gateway.${name}` : flagName(`gateway.${name}`, command);
  const { domain, tlsIssuer, ingress, gatewayApi } = gateway ?? {};
  const given = Object.entries({ tlsIssuer, ingress, gatewayApi }).filter(([, value]) => value !== undefined);
  const [first] = given.map(([name]) => named(name as "tlsIssuer"));
  if (first !== undefined && domain === undefined)
    throw new RametError("InvalidArgument", `${first} can only be used with ${named("domain")}`);
  if (ingress === undefined || gatewayApi === undefined) return;
  throw new RametError("InvalidArgument", `${named("ingress")} and ${named("gatewayApi")} exclude each other`);
}

/** @throws RametError `InvalidArgument` for a size of the nodes' caches without their path */
export function requirePathOfCache(cells: InstallOptions["cells"], command: "controller" | "manifests"): void {
  if (cells?.nodeCacheSize === undefined || cells.nodeCachePath !== undefined) return;
  const [size, path] = [flagName("cells.nodeCacheSize", command), flagName("cells.nodeCachePath", command)];
  throw new RametError("InvalidArgument", `${size} can only be used with ${path}`);
}

/** @throws RametError `InvalidArgument` for the identity of another cloud */
function requireOwnIdentity(store: RemoteStore): void {
  const { driver } = parseStoreAddress(store.address);
  const other = identityFields.find((field) => store[field] !== undefined && identities[field].driver !== driver);
  if (other === undefined) return;
  const why = `${flagName(`store.${other}`, "manifests")} does not apply to ${store.address}: it is for another cloud`;
  throw new RametError("InvalidArgument", why);
}

/** A store in a bucket, and the identity with which the controllers use it. */
export interface RemoteStore<Text = string> {
  /** For example `s3://bucket/prefix?region=eu-central-1`. */
  address: Text;
  /** S3: the IAM role that the controllers' service account assumes (IRSA). Not needed with EKS Pod Identity. */
  roleArn?: Text | undefined;
  /** Google Cloud Storage: the email address of the Google service account that the controllers impersonate. */
  serviceAccount?: Text | undefined;
  /** Azure: the client id of the managed identity of the controllers (AKS workload identity). */
  clientId?: Text | undefined;
  /** Azure: the tenant of that identity. @default the cluster's tenant */
  tenantId?: Text | undefined;
  /** A Secret in the namespace with environment variables for the store's client, such as `AWS_ACCESS_KEY_ID`. */
  secret?: Text | undefined;
}

/** The identity fields, with the driver of each and its annotation on the controllers' service account. */
export const identities = {
  roleArn: { driver: "s3", annotation: "eks.amazonaws.com/role-arn" },
  serviceAccount: { driver: "gcs", annotation: "iam.gke.io/gcp-service-account" },
  clientId: { driver: "azure", annotation: "azure.workload.identity/client-id" },
  tenantId: { driver: "azure", annotation: "azure.workload.identity/tenant-id" },
} as const satisfies { [Field in keyof RemoteStore]?: { driver: StoreLocation["driver"]; annotation: string } };

const identityFields = Object.keys(identities) as (keyof typeof identities)[];

/** All fields except the address. */
export const accessFields = [...identityFields, "secret"] as const;

/** The identity annotations for the controllers' service account. */
export function identityAnnotations(store: RemoteStore<unknown>): Record<string, string> {
  const given = identityFields.filter((field) => store[field] !== undefined);
  // In a Pulumi program the value can be an output.
  return Object.fromEntries(given.map((field) => [identities[field].annotation, store[field] as string]));
}

/** The identity labels for the controllers' Pods. */
export function identityLabels(store: RemoteStore<unknown>): Record<string, string> {
  return store.clientId === undefined ? {} : { "azure.workload.identity/use": "true" };
}
