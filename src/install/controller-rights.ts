import { internalGroup, keyPowers, keySecrets, nextSecretOf, systemNamespace } from "../api/names/system-names.ts";
import { crdNames } from "../api/kinds/crd.ts";
import { competingControllers } from "../api/names/other-controllers.ts";
import { importGuard } from "../api/volumes/import-guard.ts";
import type { InstallOptions } from "./install-options.ts";
import { narrowed, type Right, type Rights } from "./rights.ts";

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

const kruise = "agents.kruise.io";
const follow = ["get", "list", "watch"];

/** Permissions of the controllers in all namespaces, whether or not they work beside others. */
export const sharedRights = {
  namedSnapshots: {
    why: "reconcile named snapshots, whose finalizer remains until their versions are deleted",
    apiGroups: ["ramet.dev"],
    resources: ["namedsnapshots"],
    verbs: [...follow, "patch"],
  },
  recipeConfigMaps: {
    why: "keep the output of recipe steps in ConfigMaps, and copy files from ConfigMaps",
    apiGroups: [""],
    resources: ["configmaps"],
    verbs: ["get", "create", "patch", "delete"],
  },
  recordEvents: {
    why: "record events",
    apiGroups: ["events.k8s.io"],
    resources: ["events"],
    verbs: ["create", "patch"],
  },
} satisfies Record<string, Right>;

/** Permissions of the controllers in all namespaces. */
export const clusterRights: readonly Right[] = [
  {
    why: "create sandboxes for sets, claims and builds, and delete expired sandboxes",
    apiGroups: [kruise],
    resources: ["sandboxes"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "create checkpoints for pauses, steps and versions, and delete unused checkpoints",
    apiGroups: [kruise],
    resources: ["checkpoints"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "keep the template of each checkpoint and of each revision of a set, and delete it with them",
    apiGroups: [kruise],
    resources: ["sandboxtemplates"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "delete claims after their ttlAfterCompleted",
    apiGroups: [kruise],
    resources: ["sandboxclaims"],
    verbs: [...follow, "patch", "delete"],
  },
  { why: "reconcile sets", apiGroups: [kruise], resources: ["sandboxsets"], verbs: [...follow, "patch"] },
  sharedRights.namedSnapshots,
  {
    why: "write the status of each object",
    apiGroups: [kruise, "ramet.dev"],
    resources: [
      "sandboxes/status",
      "checkpoints/status",
      "sandboxclaims/status",
      "sandboxsets/status",
      "namedsnapshots/status",
    ],
    verbs: ["patch"],
  },
  {
    why: "run each sandbox in a Pod",
    apiGroups: [""],
    resources: ["pods"],
    verbs: [...follow, "create", "delete"],
  },
  {
    why: "create Pods that run cells; the admission policies refuse such Pods from everyone without this right",
    apiGroups: [internalGroup],
    resources: ["cells"],
    verbs: ["create"],
  },
  {
    why: "create PersistentVolumeClaims from the volumeClaimTemplates of a sandbox, share them with its clones, and delete them with the last of these; label those that are captured together, and find labels that are left",
    apiGroups: [""],
    resources: ["persistentvolumeclaims"],
    verbs: ["get", "list", "create", "patch", "delete"],
  },
  {
    why: "capture the PersistentVolumeClaims of sandboxes as VolumeSnapshots, and delete these with their Checkpoints",
    apiGroups: ["snapshot.storage.k8s.io"],
    resources: ["volumesnapshots"],
    verbs: [...follow, "create", "delete"],
  },
  {
    why: "verify which data a VolumeSnapshot is bound to, keep it while the Checkpoint exists, let it be deleted with the Checkpoint, and find data whose VolumeSnapshot is gone",
    apiGroups: ["snapshot.storage.k8s.io"],
    resources: ["volumesnapshotcontents"],
    verbs: ["get", "list", "patch", "delete"],
    scope: "cluster",
  },
  {
    why: "choose the VolumeSnapshotClass for the checkpoints of a driver's volumes",
    apiGroups: ["snapshot.storage.k8s.io"],
    resources: ["volumesnapshotclasses"],
    verbs: ["list"],
    scope: "cluster",
  },
  {
    why: "capture the PersistentVolumeClaims of one driver as a VolumeGroupSnapshot, and delete it with its Checkpoint",
    apiGroups: ["groupsnapshot.storage.k8s.io"],
    resources: ["volumegroupsnapshots"],
    verbs: [...follow, "create", "delete"],
  },
  {
    why: "keep the data of a VolumeGroupSnapshot while the Checkpoint exists, let it be deleted with the Checkpoint, and find data whose VolumeGroupSnapshot is gone; contents are never created",
    apiGroups: ["groupsnapshot.storage.k8s.io"],
    resources: ["volumegroupsnapshotcontents"],
    verbs: ["get", "list", "patch", "delete"],
    scope: "cluster",
  },
  {
    why: "choose the VolumeGroupSnapshotClass for the checkpoints of a driver's volumes",
    apiGroups: ["groupsnapshot.storage.k8s.io"],
    resources: ["volumegroupsnapshotclasses"],
    verbs: ["list"],
    scope: "cluster",
  },
  {
    why: "read the CSI driver of a volume",
    apiGroups: [""],
    resources: ["persistentvolumes"],
    verbs: ["get"],
    scope: "cluster",
  },
  {
    why: "compare the CSI driver of a clone's StorageClass with that of the captured volume",
    apiGroups: ["storage.k8s.io"],
    resources: ["storageclasses"],
    verbs: ["get"],
    scope: "cluster",
  },
  sharedRights.recipeConfigMaps,
  {
    why: "copy files from the Secrets that a recipe names, and read images and add headers to requests with the Secrets that a template or a sandbox names",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["get"],
  },
  {
    why: "add the secrets of clients to requests of their sandboxes",
    apiGroups: ["ramet.dev"],
    resources: ["clientsecrets"],
    verbs: ["get"],
  },
  {
    why: "read which Secrets a service account names for image pulls",
    apiGroups: [""],
    resources: ["serviceaccounts"],
    verbs: ["get"],
  },
  {
    why: "bind the store to the cluster by the UID of kube-system, create ramet-system if it is missing, read which fields templates may use, and label namespaces with sandboxes",
    apiGroups: [""],
    resources: ["namespaces"],
    verbs: ["get", "create", "patch"],
    scope: "namespaces",
  },
  {
    why: "follow the egress rules that administrators set on namespaces",
    apiGroups: [""],
    resources: ["namespaces"],
    verbs: ["list", "watch"],
    scope: "namespaces",
  },
  {
    why: "find out whether all nodes support user namespaces, with --cell-user-namespaces auto, and which nodes have the CPU that a checkpoint needs",
    apiGroups: [""],
    resources: ["nodes"],
    verbs: ["list", "watch"],
    scope: "cluster",
  },
  sharedRights.recordEvents,
  ...otherControllerRights("find other controllers of the same kinds, beside which the controllers do not work"),
];

/** Permissions of the controllers where users may import volumes. */
const importRights: readonly Right[] = [
  {
    why: "import volumes: with this, the controllers can read every snapshot that a CSI driver can read",
    apiGroups: ["snapshot.storage.k8s.io"],
    resources: ["volumesnapshotcontents"],
    verbs: ["create"],
    scope: "cluster",
  },
  {
    why: "verify that the admission policy for imports is in effect, without which nothing is imported",
    apiGroups: ["admissionregistration.k8s.io"],
    resources: ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
    resourceNames: [importGuard.name],
    verbs: ["get"],
    scope: "cluster",
  },
];

/**
 * The names are fixed, but not the namespaces: those depend on the installation of the other controller. RBAC allows a list of one
 * name in all namespaces.
 */
export function otherControllerRights(why: string): Right[] {
  return [
    {
      why: `${why}: their leases`,
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: competingControllers.flatMap(({ leases }) => [...leases]),
      verbs: ["list"],
      scope: "cluster",
    },
    {
      why: `${why}: their Deployments`,
      apiGroups: ["apps"],
      resources: ["deployments"],
      resourceNames: competingControllers.flatMap(({ deployments }) => deployments.map(({ name }) => name)),
      verbs: ["list"],
      scope: "cluster",
    },
    {
      why: `${why}: the origin of their CRDs`,
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      resourceNames: crdNames().flatMap(({ name, group }) => (group === kruise ? [name] : [])),
      verbs: ["get"],
      scope: "cluster",
    },
  ];
}

/** Permissions of the controllers in `ramet-system`. */
export const systemRights: readonly Right[] = [
  {
    why: "elect a leader among the controllers by a lease",
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "create", "update"],
  },
  {
    why: "create the keys of the cells, the guests and the gateways",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["create"],
  },
  {
    why: "replace the keys of the cells and the gateways when they are rotated",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: keyPowers.flatMap((power) => [keySecrets[power], nextSecretOf(power)]),
    verbs: ["delete"],
  },
];

/** Permissions of the controllers on Namespaces if only some are served. A list or watch of one name can be allowed by RBAC. */
function namespaceRights(served: readonly string[]): Right[] {
  return [
    {
      why: "bind the store to the cluster by the UID of kube-system, and look for ramet-system",
      apiGroups: [""],
      resources: ["namespaces"],
      resourceNames: ["kube-system", systemNamespace],
      verbs: ["get"],
    },
    {
      why: "follow the rules that administrators set on the served namespaces, and label those with sandboxes",
      apiGroups: [""],
      resources: ["namespaces"],
      resourceNames: [...served],
      verbs: [...follow, "patch"],
    },
  ];
}

/** The rights that the controllers need in `ramet-system` besides `systemRights` if they have no rights in all namespaces. */
const ownNamespaceRights: readonly Right[] = [
  {
    why: "read the keys of the cells, the guests, the gateways and the checkpoints",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["get"],
  },
  {
    why: "report the progress of the rotation of keys and the state of the store",
    apiGroups: [""],
    resources: ["configmaps"],
    verbs: ["get", "create", "patch"],
  },
];
