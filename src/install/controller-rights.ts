import { crdNames } from "../api/kinds/crd.ts";
import { competingControllers } from "../api/names/other-controllers.ts";
import { internalGroup, keyPowers, keySecrets, nextSecretOf, systemNamespace } from "../api/names/system-names.ts";
import { group } from "../api/schema/kind.ts";
import { importGuard } from "../api/kinds/volume-import.ts";
import type { InstallOptions } from "./install-options.ts";
import { narrowed, type Right, type Rights, rights, rightsOnNames } from "./rights.ts";

/** @param served the namespaces whose objects the controllers reconcile. @default all */
export function controllerRights(
  served?: readonly string[],
  { importVolumes = false }: Pick<InstallOptions<unknown, unknown>, "importVolumes"> = {},
): Rights {
  const all = importVolumes ? [...clusterRights, ...importRights] : clusterRights;
  if (served === undefined) return { everywhere: all, inSystem: systemRights };
  const { everywhere, inServed } = narrowed(all, served);
  return {
    everywhere: [...namespaceRights(served), ...everywhere],
    inSystem: [...systemRights, ...ownNamespaceRights],
    inServed,
  };
}

/** Permissions of the controllers in all namespaces, whether or not they work beside others. */
export const sharedRights: readonly Right[] = rights("served", {
  "namedsnapshots.ramet.dev: get list watch patch":
    "reconcile named snapshots, whose finalizer remains until their versions are deleted",
  "configmaps: get create patch delete":
    "keep the output of recipe steps in ConfigMaps, and copy files from ConfigMaps",
  "events.events.k8s.io: create patch": "record events",
});

/** Permissions of the controllers in all namespaces. */
export const clusterRights: readonly Right[] = [
  ...rights("served", {
    "sandboxes.agents.kruise.io: get list watch create patch delete":
      "create sandboxes for sets, claims and builds, and delete expired sandboxes",
    "checkpoints.agents.kruise.io: get list watch create patch delete":
      "create checkpoints for pauses, steps and versions, and delete unused checkpoints",
    "sandboxtemplates.agents.kruise.io: get list watch create patch delete":
      "keep the template of each checkpoint and of each revision of a set, and delete it with them",
    "sandboxclaims.agents.kruise.io: get list watch patch delete": "delete claims after their ttlAfterCompleted",
    "sandboxsets.agents.kruise.io: get list watch patch": "reconcile sets",
    "sandboxes.agents.kruise.io/status checkpoints.agents.kruise.io/status sandboxclaims.agents.kruise.io/status sandboxsets.agents.kruise.io/status namedsnapshots.ramet.dev/status: patch":
      "write the status of each object",
    "clientsecrets.ramet.dev: get": "add the secrets of clients to requests of their sandboxes",
    "pods: get list watch create delete":
      "run each sandbox in a Pod, and add up what Pods request on a node to which one may move",
    "poddisruptionbudgets.policy: list create patch delete":
      "keep ready sandboxes of sets on a node that is drained until others are made, and find budgets that do this already",
    "persistentvolumeclaims: get list create patch delete":
      "create PersistentVolumeClaims from the volumeClaimTemplates of a sandbox, share them with its clones, and delete them with the last of these; label those that are captured together, and find labels that are left",
    "secrets: get":
      "copy files from the Secrets that a recipe names, and read images and add headers to requests with the Secrets that a template or a sandbox names",
    "secrets: create":
      "store the logins of registries that clients build from; an admission policy refuses Secrets of other types and names",
    "serviceaccounts: get": "read which Secrets a service account names for image pulls",
    [`cells.${internalGroup}: create`]:
      "create Pods that run cells; the admission policies refuse such Pods from everyone without this right",
    "volumesnapshots.snapshot.storage.k8s.io: get list watch create delete":
      "capture the PersistentVolumeClaims of sandboxes as VolumeSnapshots, and delete these with their Checkpoints",
    "volumegroupsnapshots.groupsnapshot.storage.k8s.io: get list watch create delete":
      "capture the PersistentVolumeClaims of one driver as a VolumeGroupSnapshot, and delete it with its Checkpoint",
  }),
  ...sharedRights,
  ...rights("cluster", {
    "volumesnapshotcontents.snapshot.storage.k8s.io: get list patch delete":
      "verify which data a VolumeSnapshot is bound to, keep it while the Checkpoint exists, let it be deleted with the Checkpoint, and find data whose VolumeSnapshot is gone",
    "volumesnapshotclasses.snapshot.storage.k8s.io: list":
      "choose the VolumeSnapshotClass for the checkpoints of a driver's volumes",
    "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io: get list patch delete":
      "keep the data of a VolumeGroupSnapshot while the Checkpoint exists, let it be deleted with the Checkpoint, and find data whose VolumeGroupSnapshot is gone; contents are never created",
    "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io: list":
      "choose the VolumeGroupSnapshotClass for the checkpoints of a driver's volumes",
    "storageclasses.storage.k8s.io: get":
      "compare the CSI driver of a clone's StorageClass with that of the captured volume",
    "persistentvolumes: get": "read the CSI driver of a volume",
    "nodes: list watch":
      "find out whether all nodes support user namespaces, with --cell-user-namespaces auto, and which nodes have the CPU that a checkpoint needs",
  }),
  ...rights("namespaces", {
    "namespaces: get create patch":
      "bind the store to the cluster by the UID of kube-system, create ramet-system if it is missing, read which fields templates may use, and label namespaces with sandboxes",
    "namespaces: list watch": "follow the egress rules that administrators set on namespaces",
  }),
  ...otherControllerRights("find other controllers of the same kinds, beside which the controllers do not work"),
];

const importRights: readonly Right[] = [
  ...rights("cluster", {
    "volumesnapshotcontents.snapshot.storage.k8s.io: create":
      "import volumes: with this, the controllers can read every snapshot that a CSI driver can read",
  }),
  ...rightsOnNames([importGuard.name], {
    "validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io: get":
      "verify that the admission policy for imports is in effect, without which nothing is imported",
  }),
];

/**
 * The names are fixed, but not the namespaces: those depend on the installation of the other controller. RBAC allows a list of one
 * name in all namespaces.
 */
export function otherControllerRights(why: string): Right[] {
  const names = {
    leases: competingControllers.flatMap(({ leases }) => [...leases]),
    deployments: competingControllers.flatMap(({ deployments }) => deployments.map(({ name }) => name)),
    crds: crdNames().flatMap((crd) => (crd.group === group ? [crd.name] : [])),
  };
  return [
    ...rightsOnNames(names.leases, { "leases.coordination.k8s.io: list": `${why}: their leases` }),
    ...rightsOnNames(names.deployments, { "deployments.apps: list": `${why}: their Deployments` }),
    ...rightsOnNames(names.crds, {
      "customresourcedefinitions.apiextensions.k8s.io: get": `${why}: the origin of their CRDs`,
    }),
  ];
}

export const systemRights: readonly Right[] = [
  ...rights("served", {
    "leases.coordination.k8s.io: get create update": "elect a leader among the controllers by a lease",
    "secrets: create": "create the keys of the cells, the guests and the gateways",
  }),
  ...rightsOnNames(
    keyPowers.flatMap((power) => [keySecrets[power], nextSecretOf(power)]),
    { "secrets: delete": "replace the keys of the cells and the gateways when they are rotated" },
  ),
];

/** Permissions of the controllers on Namespaces if only some are served. A list or watch of one name can be allowed by RBAC. */
function namespaceRights(served: readonly string[]): Right[] {
  return [
    ...rightsOnNames(["kube-system", systemNamespace], {
      "namespaces: get": "bind the store to the cluster by the UID of kube-system, and look for ramet-system",
    }),
    ...rightsOnNames(served, {
      "namespaces: get list watch patch":
        "follow the rules that administrators set on the served namespaces, and label those with sandboxes",
    }),
  ];
}

/** The rights that the controllers need in `ramet-system` besides `systemRights` if they have no rights in all namespaces. */
const ownNamespaceRights: readonly Right[] = rights("served", {
  "secrets: get": "read the keys of the cells, the guests, the gateways and the checkpoints",
  "configmaps: get create patch": "report the progress of the rotation of keys and the state of the store",
});

/** Permissions in all namespaces of controllers that work beside others. They create no Pods and write no status of theirs. */
const besideRights: readonly Right[] = [
  ...rights("served", {
    "sandboxes.agents.kruise.io: get list watch create delete": "create and delete the sandboxes of builds",
    "checkpoints.agents.kruise.io: get list watch create patch delete":
      "request checkpoints of steps and versions, and delete unused and expired checkpoints",
    "sandboxtemplates.agents.kruise.io: get list watch create delete":
      "keep the template of each checkpoint, and delete unused revisions of sets",
    "sandboxsets.agents.kruise.io: get list watch patch":
      "write the checkpoint of a named snapshot into the sets that follow it",
    "sandboxclaims.agents.kruise.io: get list watch": "find what claims refer to",
    "namedsnapshots.ramet.dev/status: patch": "write the status of named snapshots",
    "secrets: get": "copy files from the Secrets that a recipe names",
    "namespaces: get list watch create":
      "read the quotas of namespaces and select namespaces, and create ramet-system if it is missing",
  }),
  ...sharedRights,
  ...otherControllerRights("report whether the other controllers run"),
];

/** Permissions in `ramet-system`: the lease only, as there are no keys. */
const besideSystemRights: readonly Right[] = systemRights.filter(({ resources }) => resources?.includes("leases"));

export const rightsBeside: Rights = { everywhere: besideRights, inSystem: besideSystemRights };
