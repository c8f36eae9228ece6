/** The objects of a cluster that matter for volume snapshots. */
export interface ObservedCluster {
  /** The version that the API server reports: `v1.33.4-eks-99d6cc0`. */
  server: string;
  /** The CRDs of external-snapshotter, and those of sandboxes and their checkpoints. */
  crds: ObservedCrd[];
  controllers: ObservedController[];
  /** Existing objects with the names that a stack would use for its controller. */
  controllerObjects: ObservedObject[];
  /** Leases that a controller renewed recently. A controller whose Deployment is not visible has one too. */
  leases: ObservedLease[];
  /** Whether another sandbox controller than Ramet's renews its lease. */
  hasSandboxController: boolean;
  /** The names of the CSI drivers. */
  drivers: string[];
  classes: ObservedClass[];
  /** Webhooks that validate snapshots. */
  webhooks: ObservedWebhook[];
  /**
   * Existing objects that violate the validation rules of v8, if the stack's CRDs have no rules yet: `kind/name` or
   * `kind/namespace/name`.
   */
  breakingRules: string[];
  nodes: ObservedNode[];
  /** Existing DaemonSets of EKS add-ons. */
  daemonSets: string[];
  /** The add-ons that a snapshot stack installed into this cluster, and the stack's resource. */
  installed: Installed | undefined;
  /** Resources (plural names) that could not be read because of missing permissions. */
  unread: string[];
}

export interface ObservedCrd {
  name: string;
  /** The served versions. */
  served: string[];
  /** The versions in which objects may still be stored. */
  stored: string[];
  hasConversionWebhook: boolean;
  /** Whether the schema has validation rules, as the CRDs of snapshots and contents have since v8. */
  hasRules: boolean;
  /** Whether this version of Ramet installs the same CRD. */
  isRamets: boolean;
  manager: string;
  declaredBy: string | undefined;
}

export interface ObservedController {
  namespace: string;
  name: string;
  image: string;
  arguments: string[];
  selector: Record<string, string>;
  isAvailable: boolean;
  manager: string;
  declaredBy: string | undefined;
}

export interface ObservedObject {
  kind: string;
  namespace?: string;
  name: string;
  manager: string;
  declaredBy: string | undefined;
}

export interface ObservedWebhook {
  name: string;
  /** Whether it belongs to external-snapshotter, which has no webhook since v8.2. */
  isUpstreams: boolean;
}

export interface ObservedLease {
  namespace: string;
  holder: string;
}

export interface ObservedClass {
  name: string;
  driver: string;
  deletionPolicy: string;
  isDefault: boolean;
  manager: string;
  declaredBy: string | undefined;
}

export interface ObservedNode {
  labels: Record<string, string>;
}

export interface Installed {
  declaredBy: string;
  addons: string[];
}

/** An empty cluster. */
export const emptyCluster: ObservedCluster = {
  server: "",
  crds: [],
  controllers: [],
  controllerObjects: [],
  leases: [],
  hasSandboxController: false,
  drivers: [],
  classes: [],
  webhooks: [],
  breakingRules: [],
  nodes: [],
  daemonSets: [],
  unread: [],
  installed: undefined,
};

const core = ["volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"];
const group = ["volumegroupsnapshotclasses", "volumegroupsnapshotcontents", "volumegroupsnapshots"];

export const crdNames = {
  core: core.map((plural) => `${plural}.snapshot.storage.k8s.io`),
  group: group.map((plural) => `${plural}.groupsnapshot.storage.k8s.io`),
  sandboxes: ["sandboxes.agents.kruise.io", "checkpoints.agents.kruise.io"],
};

/** The ConfigMap in which a stack records the add-ons that it installed, because add-ons cannot be annotated. */
export const installedMap = { namespace: "kube-system", name: "ramet-snapshot-stack", key: "addons" };

/** The DaemonSet that gives Pods on EKS the roles of their service accounts. */
export const podIdentityAgent = "eks-pod-identity-agent";

/** The Lease for leader election of snapshot controllers (external-snapshotter, cmd/snapshot-controller). */
export const controllerLease = "snapshot-controller-leader";

/** The Leases of the OpenKruise Agents controller and manager, which ACS runs (directories config and cmd there). */
export const sandboxLeases = ["f57b9a68.kruise.io", "sandbox-manager-primary"];

export const defaultClassAnnotation = "snapshot.storage.kubernetes.io/is-default-class";
