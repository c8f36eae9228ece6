/** The namespace of Ramet's own objects in every cluster, such as the cell key and the lease of the controllers. */
export const systemNamespace = "ramet-system";

/** The Secret with the credentials that controllers use to call cells. The first controller creates it. */
export const credentialsSecret = "ramet-cell-key";

/** The entry of both Secrets that holds the private key, as PKCS #8 PEM. */
export const privateKeyEntry = "private-key.pem";

/** The Secret with the key that gateways use to reach sandbox ports. The controllers create it. */
export const gatewayKeySecret = "ramet-gateway-key";

/** The name of the controllers' Deployment, service account and roles. */
export const controllerName = "ramet-controller";

/** The name of the gateways' Deployment, Service, service account and roles. */
export const gatewayName = "ramet-gateway";

/** The audience of tokens for gateways. Tokens for the API server are rejected, as a gateway could use them there. */
export const gatewayAudience = "ramet-gateway";

/** On the gateways' Deployment and its Pods. */
export const gatewayLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "gateway" };

/** On the controllers' Deployment and its Pods. */
export const controllerLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "controller" };

/** The Lease with which controllers elect a leader. A single controller, as on one machine, does not use it. */
export const controllersLease = "ramet-controllers";

/** On the node of a cluster on one machine, which runs its own controllers. */
export const localNodeLabels = { "node.kubernetes.io/instance-type": "ramet-local" };

/**
 * Prefix of the templates that a cluster provides. Names without it stay free for users: Pulumi cannot create an object that
 * exists already.
 */
export const clusterTemplatePrefix = "ramet-";
