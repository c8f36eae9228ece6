import { gatewayKeySecret, guestKeySecret } from "../api/names/system-names.ts";
import { narrowed, type Right, type Rights } from "./rights.ts";

/** @param exec whether clients enter sandboxes through the gateways */
export function gatewayRights(exec: boolean, served?: readonly string[]): Rights {
  const inSystem = exec ? [...gatewaySystemRights, gatewayExecRight] : gatewaySystemRights;
  if (served === undefined) return { everywhere: gatewayClusterRights, inSystem };
  return { ...narrowed(gatewayClusterRights, served), inSystem };
}

/** Permissions of the gateways in all namespaces. */
export const gatewayClusterRights: readonly Right[] = [
  {
    why: "read the address and the readiness of sandboxes",
    apiGroups: ["agents.kruise.io"],
    resources: ["sandboxes"],
    verbs: ["get", "list", "watch"],
  },
  {
    why: "verify the signature of a client's token before the API server is asked",
    nonResourceURLs: ["/openid/v1/jwks"],
    verbs: ["get"],
    scope: "cluster",
  },
  {
    why: "authenticate clients by their token",
    apiGroups: ["authentication.k8s.io"],
    resources: ["tokenreviews"],
    verbs: ["create"],
    scope: "cluster",
  },
  {
    why: "check whether a client may connect to a sandbox or enter it",
    apiGroups: ["authorization.k8s.io"],
    resources: ["subjectaccessreviews"],
    verbs: ["create"],
    scope: "cluster",
  },
];

/** Permissions of the gateways in `ramet-system`. */
export const gatewaySystemRights: readonly Right[] = [
  {
    why: "read the key with which cells proxy to sandbox ports, and which allows nothing else",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: [gatewayKeySecret],
    verbs: ["get"],
  },
];

/** The further permission in `ramet-system` of gateways through which clients enter sandboxes. */
export const gatewayExecRight: Right = {
  why: "send the access token of a sandbox's guest for clients that may enter the sandbox, and verify that of other clients",
  apiGroups: [""],
  resources: ["secrets"],
  resourceNames: [guestKeySecret],
  verbs: ["get"],
};
