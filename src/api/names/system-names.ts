/** Where Ramet's own objects are, in every cluster: the key of the cells and the lease of the controllers. */
export const systemNamespace = "ramet-system";

/** The Secret there that holds the credentials with which controllers speak to cells; the first of them makes it. */
export const credentialsSecret = "ramet-cell-key";

/** Under which name a private key stands in either Secret: PKCS #8 PEM. */
export const privateKeyEntry = "private-key.pem";

/** The Secret there that holds the key with which gateways open ports of sandboxes; the controllers make it. */
export const gatewayKeySecret = "ramet-gateway-key";

/** What the controllers' Deployment, service account and roles are called. */
export const controllerName = "ramet-controller";

/** What the gateways' Deployment, Service, service account and roles are called. */
export const gatewayName = "ramet-gateway";

/** For whom a token has to be made with which somebody comes to a gateway. One for the API server is refused: a gateway could use it there. */
export const gatewayAudience = "ramet-gateway";

/** On the gateways' Deployment and its Pods. */
export const gatewayLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "gateway" };

/** On the controllers' Deployment and its Pods. */
export const controllerLabels = { "app.kubernetes.io/name": "ramet", "app.kubernetes.io/component": "controller" };

/** The lease there by which one of several controllers works. A single one, as on one machine, takes none. */
export const controllersLease = "ramet-controllers";

/** On the node of a cluster on one machine, which brings its controllers. */
export const localNodeLabels = { "node.kubernetes.io/instance-type": "ramet-local" };

/**
 * With what the names of templates begin that a cluster brings, so that a name without it is free for the user's own: who
 * declares an object by Pulumi is refused one that is there already.
 */
export const clusterTemplatePrefix = "ramet-";
