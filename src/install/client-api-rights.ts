import { clientCredentialsRight, guestKeySecret, internalGroup } from "../api/names/system-names.ts";
import { credentialKeyMap } from "../api/credentials/credential-seal.ts";
import { narrowed, type Right, type Rights, rights, rightsOnNames } from "./rights.ts";

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
