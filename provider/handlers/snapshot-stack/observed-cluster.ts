/** What there is in a cluster of what snapshots of volumes need. */
export interface ObservedCluster {
  /** The version of the API server, as it gives it: `v1.33.4-eks-99d6cc0`. */
  server: string;
  /** The CRDs of external-snapshotter, and those of sandboxes and their checkpoints. */
  crds: ObservedCrd[];
  controllers: ObservedController[];
  /** Of what a stack would install a controller with, what is there. */
  controllerObjects: ObservedObject[];
  /** Leases that a controller has renewed a moment ago: also one whose Deployment cannot be seen has one. */
  leases: ObservedLease[];
  /** Whether a controller of sandboxes that is not Ramet's shows itself in the same way. */
  hasSandboxController: boolean;
  /** The names of the CSI drivers. */
  drivers: string[];
  classes: ObservedClass[];
  /** Webhooks that judge snapshots. */
  webhooks: ObservedWebhook[];
  /** Where CRDs of a stack have no rules yet: what there is that those of v8 refuse, as `kind/name` or `kind/namespace/name`. */
  breakingRules: string[];
  nodes: ObservedNode[];
  /** Of those of EKS' add-ons that are DaemonSets, which are there. */
  daemonSets: string[];
  /** What a snapshot stack has had a cloud install into this cluster, and which resource of which stack that was. */
  installed: Installed | undefined;
  /** What could not be read for want of rights. */
  unread: string[];
}

export interface ObservedCrd {
  name: string;
  /** The versions that are served. */
  served: string[];
  /** The versions in which objects may still be stored. */
  stored: string[];
  hasConversionWebhook: boolean;
  /** Whether its schema has rules beside types, as those of snapshots and their contents since v8. */
  hasRules: boolean;
  /** Whether it is as this version of Ramet brings it. */
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
  /** Whether it is external-snapshotter's own, which there is none of since v8.2. */
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

/** Of the ConfigMap in which a stack says what it has had a cloud install: add-ons of a cloud cannot be annotated. */
export const installedMap = { namespace: "kube-system", name: "ramet-snapshot-stack", key: "addons" };

/** The DaemonSet by which Pods of EKS get the roles that are associated with their service accounts. */
export const podIdentityAgent = "eks-pod-identity-agent";

/** The name of the Lease by which one of several controllers works (external-snapshotter, cmd/snapshot-controller). */
export const controllerLease = "snapshot-controller-leader";

/** The names of the Leases by which OpenKruise Agents' controller and manager work, which are ACS' (its config and cmd folders). */
export const sandboxLeases = ["f57b9a68.kruise.io", "sandbox-manager-primary"];

export const defaultClassAnnotation = "snapshot.storage.kubernetes.io/is-default-class";
