import { credentialKeyMap } from "../api/credentials/credential-seal.ts";
import {
  clientCredentialsRight,
  guestKeySecret,
  internalGroup,
  gatewayKeySecret,
  clientRoleName,
} from "../api/names/system-names.ts";
import type { Manifest } from "./manifest.ts";
import { narrowed, type Right, type Rights, rights, rightsOnNames, ruleOf } from "./rights.ts";

/** The rights of the client API. RBAC decides what a client can do, for the service account of the client's key. */
export function clientApiRights(served?: readonly string[]): Rights {
  if (served === undefined) return { everywhere: clientApiClusterRights, inSystem: clientApiSystemRights };
  return { ...narrowed(clientApiClusterRights, served), inSystem: clientApiSystemRights };
}

export const clientApiClusterRights: readonly Right[] = [
  ...rights("served", {
    "sandboxes.agents.kruise.io: get list watch create patch delete":
      "create, claim, pause, resume, extend and delete sandboxes for clients",
    "checkpoints.agents.kruise.io: get list watch create delete": "snapshot sandboxes for clients",
    "sandboxsets.agents.kruise.io sandboxtemplates.agents.kruise.io: get list watch":
      "find what sandboxes can be created from",
    "sandboxtemplates.agents.kruise.io: create": "create templates of the images that clients build from",
    [`${clientCredentialsRight}.${internalGroup}: create`]:
      "request the credentials of a client, which it seals for the controllers; the admission policies refuse that from everyone without this right",
    "clientsecrets.ramet.dev: get list create patch delete": "keep the secrets of clients, sealed for the controllers",
    "namedsnapshots.ramet.dev: get list watch create patch delete": "name snapshots for clients",
    "apikeys.ramet.dev: get list watch": "authenticate clients by the digests of their keys",
    "serviceaccounts: get": "refuse the keys of a service account that was deleted",
  }),
  ...rights("cluster", {
    "volumesnapshotclasses.snapshot.storage.k8s.io: get": "refuse a class of snapshots that does not exist",
    "subjectaccessreviews.authorization.k8s.io: create": "check what the service account of a key may do",
  }),
];

export const clientApiSystemRights: readonly Right[] = [
  ...rightsOnNames([credentialKeyMap], { "configmaps: get": "seal secrets of clients for the controllers" }),
  ...rightsOnNames([guestKeySecret], {
    "secrets: get": "derive the access tokens of sandboxes, for clients that may enter them",
  }),
];

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

/**
 * Returns the ClusterRole with what the client API offers. Nobody has it: bind it to the service accounts of API keys, in their
 * namespaces.
 */
export function clientRole(): Manifest {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: clientRoleName },
    rules: clientRights.map(ruleOf),
  };
}

export const clientRights: readonly Right[] = rights("served", {
  "sandboxes.agents.kruise.io: get list create patch delete": "create, pause, resume, extend and end sandboxes",
  "sandboxes.agents.kruise.io/exec sandboxes.agents.kruise.io/proxy: create":
    "run commands in sandboxes and reach their ports",
  "checkpoints.agents.kruise.io: get list create delete": "snapshot sandboxes",
  "sandboxsets.agents.kruise.io sandboxtemplates.agents.kruise.io: get list": "find what sandboxes can be created from",
  "namedsnapshots.ramet.dev: get list create patch delete": "name snapshots and build templates",
  "clientsecrets.ramet.dev: get list create patch delete":
    "store secrets, and have them added to requests of sandboxes",
});
