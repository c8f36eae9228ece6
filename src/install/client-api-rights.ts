import { clientCredentialsRight, guestKeySecret, internalGroup } from "../api/names/system-names.ts";
import { credentialKeyMap } from "../api/credentials/credential-seal.ts";
import { group, rametGroup } from "../api/schema/kind.ts";
import { narrowed, type Right, type Rights } from "./rights.ts";

/** The rights of the client API. RBAC decides what a client can do, for the service account of the client's key. */
export function clientApiRights(served?: readonly string[]): Rights {
  if (served === undefined) return { everywhere: clientApiClusterRights, inSystem: clientApiSystemRights };
  return { ...narrowed(clientApiClusterRights, served), inSystem: clientApiSystemRights };
}

/** Permissions of the client API in all namespaces. */
export const clientApiClusterRights: readonly Right[] = [
  {
    why: "create, claim, pause, resume, extend and delete sandboxes for clients",
    apiGroups: [group],
    resources: ["sandboxes"],
    verbs: ["get", "list", "watch", "create", "patch", "delete"],
  },
  {
    why: "request the credentials of a client, which it seals for the controllers; the admission policies refuse that from everyone without this right",
    apiGroups: [internalGroup],
    resources: [clientCredentialsRight],
    verbs: ["create"],
  },
  {
    why: "keep the secrets of clients, sealed for the controllers",
    apiGroups: [rametGroup],
    resources: ["clientsecrets"],
    verbs: ["get", "list", "create", "patch", "delete"],
  },
  {
    why: "store the credentials of registries that clients build from, without the right to read them",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["create"],
  },
  {
    why: "snapshot sandboxes for clients",
    apiGroups: [group],
    resources: ["checkpoints"],
    verbs: ["get", "list", "watch", "create", "delete"],
  },
  {
    why: "name snapshots for clients",
    apiGroups: [rametGroup],
    resources: ["namedsnapshots"],
    verbs: ["get", "list", "watch", "create", "patch", "delete"],
  },
  {
    why: "find what sandboxes can be created from",
    apiGroups: [group],
    resources: ["sandboxsets", "sandboxtemplates"],
    verbs: ["get", "list", "watch"],
  },
  {
    why: "create templates of the images that clients build from",
    apiGroups: [group],
    resources: ["sandboxtemplates"],
    verbs: ["create"],
  },
  {
    why: "authenticate clients by the digests of their keys",
    apiGroups: [rametGroup],
    resources: ["apikeys"],
    verbs: ["get", "list", "watch"],
  },
  {
    why: "refuse the keys of a service account that was deleted",
    apiGroups: [""],
    resources: ["serviceaccounts"],
    verbs: ["get"],
  },
  {
    why: "check what the service account of a key may do",
    apiGroups: ["authorization.k8s.io"],
    resources: ["subjectaccessreviews"],
    verbs: ["create"],
    scope: "cluster",
  },
];

/** Permissions of the client API in `ramet-system`. */
export const clientApiSystemRights: readonly Right[] = [
  {
    why: "seal secrets of clients for the controllers",
    apiGroups: [""],
    resources: ["configmaps"],
    resourceNames: [credentialKeyMap],
    verbs: ["get"],
  },
  {
    why: "derive the access tokens of sandboxes, for clients that may enter them",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: [guestKeySecret],
    verbs: ["get"],
  },
];
