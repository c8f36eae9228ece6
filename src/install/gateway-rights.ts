import { gatewayKeySecret, guestKeySecret } from "../api/names/system-names.ts";
import { narrowed, type Right, type Rights, rights, rightsOnNames } from "./rights.ts";

/** @param exec whether clients enter sandboxes through the gateways */
export function gatewayRights(exec: boolean, served?: readonly string[]): Rights {
  const inSystem = exec ? [...gatewaySystemRights, ...gatewayExecRights] : gatewaySystemRights;
  const everywhere = exec ? [...gatewayClusterRights, ...gatewayKeyRights] : gatewayClusterRights;
  return { ...(served === undefined ? { everywhere } : narrowed(everywhere, served)), inSystem };
}

export const gatewayClusterRights: readonly Right[] = [
  ...rights("served", {
    "sandboxes.agents.kruise.io: get list watch": "read the address and the readiness of sandboxes",
  }),
  {
    why: "verify the signature of a client's token before the API server is asked",
    nonResourceURLs: ["/openid/v1/jwks"],
    verbs: ["get"],
    scope: "cluster",
  },
  ...rights("cluster", {
    "tokenreviews.authentication.k8s.io: create": "authenticate clients by their token",
    "subjectaccessreviews.authorization.k8s.io: create": "check whether a client may connect to a sandbox or enter it",
  }),
];

/** The further permission of gateways through which clients enter sandboxes. */
export const gatewayKeyRights: readonly Right[] = rights("served", {
  "apikeys.ramet.dev: list watch": "refuse the access tokens that clients got with a key that was revoked",
});

export const gatewaySystemRights: readonly Right[] = rightsOnNames([gatewayKeySecret], {
  "secrets: get": "read the key with which cells proxy to sandbox ports, and which allows nothing else",
});

/** The further permission in `ramet-system` of gateways through which clients enter sandboxes. */
export const gatewayExecRights: readonly Right[] = rightsOnNames([guestKeySecret], {
  "secrets: get":
    "send the access token of a sandbox's guest for clients that may enter the sandbox, and verify that of other clients",
});
