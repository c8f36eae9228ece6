import { parseRuntimeEgress } from "../api/egress/effective-egress.ts";
import { type QuotaName, quotaNames } from "../api/quota/namespace-quota.ts";
import { RametError } from "../base/errors.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import { parseStoreAddress } from "../api/store/store-address.ts";
import { type FieldNames, type InstallField, parseInstallField } from "./install-fields.ts";
import { type MetricsReaders, parseMetricsReaders } from "./metrics-readers.ts";
import { accessFields, identities, identityFields, type RemoteStore } from "./remote-store.ts";

/** The type parameters let Pulumi components pass outputs instead of plain values. */
export interface InstallOptions<Text = string, Count = number> extends MetricsReaders<Text> {
  /** The namespace of the controllers. Their lease and the key of the cells are always in `ramet-system`. */
  namespace: string;
  /** Annotations of the controllers' Deployment and ClusterRole, which tell who manages them. */
  annotations?: Record<string, string>;
  /** The image of the controllers and gateways, with the command `ramet`. */
  image: Text;
  /** The image of the cell, which runs a sandbox. */
  cellImage: Text;
  /** The number of controller replicas. One of them is the leader; the others wait. */
  replicas: Count;
  /** The number of gateway replicas. */
  gatewayReplicas: Count;
  store: MountedStore<Text> | RemoteStore<Text>;
  /** The IPv4 ranges of the cluster's Pods, Services and nodes. Sandboxes cannot connect to them. */
  clusterRanges: readonly Text[];
  /** The cluster's DNS domain, whose names sandboxes cannot resolve. @default cluster.local */
  clusterDomain?: Text;
  /** The egress rules of all sandboxes, which namespaces, templates and sandboxes can only narrow. @default allow */
  egress?: InstalledEgress<Text>;
  /** The only namespaces whose sandboxes run, and in which the servers have rights on Pods and Secrets. @default all */
  servedNamespaces?: readonly string[];
  /** The namespaces that the controllers serve. @default all */
  namespaceSelector?: InstalledSelector<Text>;
  /** The confinement of every cell on its node. */
  cells?: CellSettings<Text>;
  /** How the controllers reach the registries of images. */
  registries?: RegistrySettings<Text>;
  /** Settings of the gateways. */
  gateway?: GatewaySettings<Text, Count>;
  /** The client API. @default it is not installed */
  clientApi?: ClientApiSettings<Text, Count>;
  /** The limits of namespaces whose annotation does not set them. */
  namespaceQuota?: Partial<Record<QuotaName, Text>>;
  /** The Secret in `ramet-system` with the key for checkpoints. @default they are not encrypted */
  encryption?: { secret: Text };
  /**
   * Whether users with the verb `import` on checkpoints may import volumes, for which the controllers may create contents of
   * VolumeSnapshots with any handle. @default false
   */
  importVolumes?: boolean | undefined;
}

export interface CellSettings<Text = string> {
  /** The path of the cells' seccomp profile in the kubelet's directory of profiles. @default none: `Unconfined` */
  seccompProfile?: Text | undefined;
  /** When cells run in user namespaces: `auto`, `always` or `never`. @default auto */
  userNamespaces?: Text | undefined;
  /** Cell images of earlier engines, besides those that the cluster remembers: `3fb1c0a9d2e4=registry.example/ramet-cell:1`. */
  earlierImages?: readonly Text[] | undefined;
}

/** Each registry is `host` or `host:port`, as in image names. */
export interface RegistrySettings<Text = string> {
  /** May have addresses that are not public. @default none */
  private?: readonly Text[] | undefined;
  /** The same, and they are read by HTTP without TLS. @default none */
  insecure?: readonly Text[] | undefined;
  /** Whether the controllers read from registries how images are started. @default true */
  lookup?: boolean | undefined;
  /** How long sets and builds wait for an image that cannot be pulled, such as `3m`. @default 3m */
  pullTimeout?: Text | undefined;
}

/** The settings of the flags of `ramet gateway`. */
export interface GatewaySettings<Text = string, Count = number> {
  /** The networks of load balancers, whose `X-Forwarded-For` names the client. @default none */
  trustedProxies?: readonly Text[] | undefined;
  maxConnections?: Count | undefined;
  maxConnectionsPerClient?: Count | undefined;
  maxConnectionsPerNamespace?: Count | undefined;
  maxConnectionsPerSandbox?: Count | undefined;
  /** Ask the API server about every token. @default false */
  acceptTokensByReviewOnly?: boolean | undefined;
  /** Let clients with the verb `create` on `sandboxes/exec` enter sandboxes. @default true */
  exec?: boolean | undefined;
  /** The Secret of the type kubernetes.io/tls in the gateways' namespace, with their certificate. @default they serve without TLS */
  tlsSecret?: Text | undefined;
  /** The address that users of the cluster can read, such as `https://gateway.example.org`. @default none is published */
  url?: Text | undefined;
  /** PEM of the certificate authority that signed its certificate. @default the system's certificate authorities */
  ca?: Text | undefined;
}

/** The client API, and what its flags set. */
export interface ClientApiSettings<Text = string, Count = number> {
  replicas: Count;
  /** The domain below which sandboxes have their host names. @default clients use their own setting */
  domain?: Text | undefined;
}

export interface InstalledEgress<Text = string> {
  default?: Text | "allow" | "deny" | undefined;
  allow?: readonly Text[] | undefined;
  deny?: readonly Text[] | undefined;
}

/** A label selector in both of its forms. */
export interface InstalledSelector<Text = string> {
  /** As in a flag: `team in (a,b)`. */
  text: Text;
  /** The `matchExpressions` of a policy: what `parseLabelSelector` returns, or an output of that. */
  requirements: unknown;
}

/** A PersistentVolumeClaim in the controllers' namespace and its mount path. */
export interface MountedStore<Text = string> {
  directory: Text;
  claim: Text;
}

/**
 * Validates the install options of a user.
 * @param fieldNames the names of the fields in error messages: flags or arguments
 * @throws RametError `InvalidArgument`, which names the first invalid field
 */
export function parseInstallOptions({ store, ...given }: InstallOptions, fieldNames: FieldNames): InstallOptions {
  const validated = <Field extends InstallField>(field: Field, value: unknown) =>
    parseInstallField(field, value, fieldNames[field]);
  return {
    namespace: validated("namespace", given.namespace),
    image: validated("image", given.image),
    cellImage: validated("cellImage", given.cellImage),
    replicas: validated("replicas", given.replicas),
    gatewayReplicas: validated("gatewayReplicas", given.gatewayReplicas),
    clusterRanges: given.clusterRanges.map((range) => validated("clusterRanges", range)),
    ...(given.clusterDomain !== undefined && { clusterDomain: validated("clusterDomain", given.clusterDomain) }),
    ...(given.egress && {
      egress: parseRuntimeEgress(given.egress, {
        default: fieldNames["egress.default"],
        allow: fieldNames["egress.allow"],
        deny: fieldNames["egress.deny"],
      }),
    }),
    ...(given.servedNamespaces && {
      servedNamespaces: parseServedNamespaces(given.servedNamespaces, fieldNames.servedNamespaces),
    }),
    ...parseMetricsReaders(given, fieldNames),
    ...(given.cells && { cells: parseCellSettings(given.cells, fieldNames) }),
    ...(given.registries && { registries: parseRegistrySettings(given.registries, fieldNames) }),
    ...(given.gateway && { gateway: parseGatewaySettings(given.gateway, fieldNames) }),
    ...(given.clientApi && { clientApi: parseClientApi(given.clientApi, fieldNames) }),
    importVolumes: given.importVolumes,
    ...(given.encryption && { encryption: { secret: validated("encryption.secret", given.encryption.secret) } }),
    ...(given.namespaceQuota && {
      namespaceQuota: Object.fromEntries(
        quotaNames.flatMap((name) => {
          const limit = given.namespaceQuota?.[name];
          return limit === undefined ? [] : [[name, validated(`namespaceQuota.${name}`, limit)] as const];
        }),
      ),
    }),
    ...(given.namespaceSelector && {
      namespaceSelector: {
        text: validated("namespaceSelector", given.namespaceSelector.text),
        requirements: parseLabelSelector(given.namespaceSelector.text, fieldNames.namespaceSelector),
      },
    }),
    store:
      "address" in store
        ? validateRemoteStore(store, fieldNames)
        : { directory: validated("store.directory", store.directory), claim: validated("store.claim", store.claim) },
  };
}

/** @param name the flag or argument. @throws RametError `InvalidArgument` */
export function parseServedNamespaces(namespaces: readonly string[], name: string): string[] {
  if (namespaces.length > 0) {
    return [...new Set(namespaces.map((namespace) => parseInstallField("servedNamespaces", namespace, name)))];
  }
  throw new RametError("InvalidArgument", `${name} contains no namespace`, {
    hint: "Name at least one namespace, or omit it to serve all",
  });
}

function parseCellSettings(
  { seccompProfile, userNamespaces, earlierImages }: CellSettings,
  fieldNames: FieldNames,
): CellSettings {
  const validated = <Field extends InstallField>(field: Field, value: unknown) =>
    parseInstallField(field, value, fieldNames[field]);
  return {
    ...(seccompProfile !== undefined && { seccompProfile: validated("cells.seccompProfile", seccompProfile) }),
    ...(userNamespaces !== undefined && { userNamespaces: validated("cells.userNamespaces", userNamespaces) }),
    ...(earlierImages && { earlierImages: earlierImages.map((one) => validated("cells.earlierImages", one)) }),
  };
}

function parseRegistrySettings(given: RegistrySettings, fieldNames: FieldNames): RegistrySettings {
  const list = (field: "private" | "insecure") =>
    given[field]?.map((host) => parseInstallField(`registries.${field}`, host, fieldNames[`registries.${field}`]));
  const { lookup, pullTimeout } = given;
  const field = "registries.pullTimeout";
  return {
    ...(given.private && { private: list("private") }),
    ...(given.insecure && { insecure: list("insecure") }),
    ...(lookup !== undefined && { lookup }),
    ...(pullTimeout !== undefined && { pullTimeout: parseInstallField(field, pullTimeout, fieldNames[field]) }),
  };
}

function parseGatewaySettings(given: GatewaySettings, fieldNames: FieldNames): GatewaySettings {
  const { trustedProxies = [], acceptTokensByReviewOnly = false, exec = true, tlsSecret, url, ca } = given;
  const validated = <Field extends InstallField>(field: Field, value: unknown) =>
    parseInstallField(field, value, fieldNames[field]);
  const limits = gatewayLimits.filter((limit) => given[limit] !== undefined);
  return {
    trustedProxies: trustedProxies.map((network) => validated("gateway.trustedProxies", network)),
    acceptTokensByReviewOnly,
    exec,
    ...(tlsSecret !== undefined && { tlsSecret: validated("gateway.tlsSecret", tlsSecret) }),
    ...(url !== undefined && { url: validated("gateway.url", url) }),
    ...(ca !== undefined && { ca: validated("gateway.ca", ca) }),
    ...Object.fromEntries(limits.map((limit) => [limit, validated(`gateway.${limit}`, given[limit])])),
  };
}

function parseClientApi({ replicas, domain }: ClientApiSettings, fieldNames: FieldNames): ClientApiSettings {
  const field = "clientApi.domain";
  return {
    replicas: parseInstallField("clientApi.replicas", replicas, fieldNames["clientApi.replicas"]),
    ...(domain !== undefined && { domain: parseInstallField(field, domain, fieldNames[field]) }),
  };
}

/** The limits of a gateway's connections. */
export const gatewayLimits = [
  "maxConnections",
  "maxConnectionsPerClient",
  "maxConnectionsPerNamespace",
  "maxConnectionsPerSandbox",
] as const;

function validateRemoteStore(store: RemoteStore, fieldNames: FieldNames): RemoteStore {
  const validated = (field: keyof RemoteStore) =>
    parseInstallField(`store.${field}`, store[field], fieldNames[`store.${field}`]);
  const given = accessFields.filter((field) => store[field] !== undefined);
  const parsed = {
    ...Object.fromEntries(given.map((field) => [field, validated(field)])),
    address: validated("address"),
  };
  const { driver } = parseStoreAddress(parsed.address);
  const other = identityFields.find((field) => store[field] !== undefined && identities[field].driver !== driver);
  if (other === undefined) return parsed;
  const why = `${fieldNames[`store.${other}`]} does not apply to ${parsed.address}: it is for another cloud`;
  throw new RametError("InvalidArgument", why);
}
