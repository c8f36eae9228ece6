/** The namespace of Ramet's own objects in every cluster, such as the cell key and the lease of the controllers. */
export const systemNamespace = "ramet-system";
/**
 * The API group of rights that only the controllers have. It has no kinds, so that a role for all resources of `ramet.dev`, as
 * tenants may have, does not contain them.
 */
export const internalGroup = "internal.ramet.dev";

/** The right, of that group, to set what a client of the client API has sealed on a Sandbox. */
export const clientCredentialsRight = "clientcredentials";

/** The Secret with the key that controllers use to call cells. The first controller creates it, as the two below. */
export const cellKeySecret = "ramet-cell-key";

/** The Secret from whose value the access tokens of all guests are derived. */
export const guestKeySecret = "ramet-guest-key";

/** The entry of that Secret: 32 bytes. */
export const guestSecretEntry = "secret";

/** The Secret with which controllers encrypt the variables that Sandboxes carry. No other component reads it. */
export const environmentKeySecret = "ramet-environment-key";

/** The entry of that Secret: 32 bytes. */
export const environmentKeyEntry = "key";

/** The Secret with the key that gateways use to reach sandbox ports. */
export const gatewayKeySecret = "ramet-gateway-key";

/** The entry of the cells' and the gateways' Secret that holds the private key, as PKCS #8 PEM. */
export const privateKeyEntry = "private-key.pem";

/** The keys that can be rotated: those that sign operations on cells, and those that sign connections to ports. */
export const keyPowers = ["cells", "gateways"] as const;
export type KeyPower = (typeof keyPowers)[number];

/** The Secret of each key. */
export const keySecrets: Record<KeyPower, string> = { cells: cellKeySecret, gateways: gatewayKeySecret };

/** The Secret of the next key, which exists during a rotation. */
export function nextSecretOf(power: KeyPower): string {
  return `${keySecrets[power]}-next`;
}

/** The name of the controllers' Deployment, service account and roles. */
export const controllerName = "ramet-controller";

/** The name of the gateways' Deployment, Service, service account and roles. */
export const gatewayName = "ramet-gateway";
/** The name of the client API's Deployment, Service, roles and service account. */
export const clientApiName = "ramet-client-api";

/** The ClusterRole with the rights of a user of the client API. */
export const clientRoleName = "ramet-client";

/** The audience of tokens for gateways. Tokens for the API server are rejected, as a gateway could use them there. */
export const gatewayAudience = "ramet-gateway";

/**
 * The ConfigMap in `ramet-system` with the address of the gateways, for users outside the cluster. Every authenticated user may
 * read it.
 */
export const gatewayAddress = {
  configMap: "ramet-gateway-address",
  /** Such as `https://gateway.example.org`. */
  url: "url",
  /** The domain below which sandboxes have host names. */
  domain: "domain",
  /** PEM of the certificate authority that signed its certificate. @default the system's certificate authorities */
  ca: "ca.crt",
  /** `<namespace>/<name>` of the service account whose tokens users of a local cluster use. */
  serviceAccount: "service-account",
} as const;

/** On the gateways' Deployment and its Pods. */
export const gatewayLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "gateway" };
export const clientApiLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "client-api" };

/** On the controllers' Deployment and its Pods. */
export const controllerLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "controller" };

/** The Lease with which controllers elect a leader. A single controller, as on one machine, does not use it. */
export const controllersLease = "ramet-controllers";

/** On a namespace, set by an administrator: its Pods may read the metrics of controllers and gateways. */
export const metricsReaderLabels = { "ramet.dev/allow-metrics": "true" };

/** On the node of a cluster on one machine, which runs its own controllers. */
export const localNodeLabels = { "node.kubernetes.io/instance-type": "ramet-local" };

/** Whether a node belongs to a cluster on one machine, which starts Pods without a kubelet. */
export function isLocalNode(labels: Readonly<Record<string, string>> = {}): boolean {
  return Object.entries(localNodeLabels).every(([key, value]) => labels[key] === value);
}

/**
 * Prefix of the templates that a cluster provides. Names without it stay free for users: Pulumi cannot create an object that
 * exists already.
 */
export const clusterTemplatePrefix = "ramet-";

/** Whether Pods of sandboxes get a user namespace. `auto`: if all schedulable nodes support it. */
export const cellUserNamespaces = ["auto", "always", "never"] as const;
export type CellUserNamespaces = (typeof cellUserNamespaces)[number];

/** The ConfigMap in `ramet-system` that tells clients beside which controllers Ramet works. All authenticated users can read it. */
export const controllersMode = {
  configMap: "ramet-mode",
  /** The project; absent: Ramet's controllers own all kinds. */
  beside: "beside",
} as const;

/** The projects beside whose controllers Ramet can work. ACS has the kinds of OpenKruise Agents. */
export const besideProjects = ["openkruise"] as const;

/** Begins the names of Secrets with credentials of registries, which only the controllers create. */
export const registrySecretPrefix = "ramet-registry-";

/** A directory of nodes that is not one of theirs, in a form that an admission policy can compare. */
export const nodeDirectoryPattern = /^(\/[A-Za-z0-9][-A-Za-z0-9._]*){2,}$/;

/** Matches the ids of `engineId`. It is not beside that function, because the command line starts without zod. */
export const engineIdPattern = /^[0-9a-f]{12}$/;
