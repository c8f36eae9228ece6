import type { Right } from "../../src/install/rights.ts";

const snapshots = "snapshot.storage.k8s.io";
const groups = "groupsnapshot.storage.k8s.io";
const follow = ["get", "list", "watch"];
const change = ["create", "update", "patch", "delete"];

/** What external-snapshotter v8.6 needs in every namespace, after its own manifests (deploy/kubernetes/snapshot-controller). */
export const controllerRights: readonly Right[] = [
  {
    why: "a snapshot is taken of the volume behind a claim",
    apiGroups: [""],
    resources: ["persistentvolumes"],
    verbs: follow,
  },
  {
    why: "a claim bears a finalizer while it is a snapshot's source",
    apiGroups: [""],
    resources: ["persistentvolumeclaims"],
    verbs: [...follow, "update"],
  },
  {
    why: "transitions are told as events",
    apiGroups: [""],
    resources: ["events"],
    verbs: ["list", "watch", "create", "update", "patch"],
  },
  { why: "classes are read", apiGroups: [snapshots], resources: ["volumesnapshotclasses"], verbs: follow },
  {
    why: "the content of a snapshot is made, bound and released",
    apiGroups: [snapshots],
    resources: ["volumesnapshotcontents"],
    verbs: [...follow, ...change],
  },
  {
    why: "snapshots get their class, finalizers and binding; members of a group are made and deleted with it",
    apiGroups: [snapshots],
    resources: ["volumesnapshots"],
    verbs: [...follow, ...change],
  },
  {
    why: "how a snapshot is, is told in its status",
    apiGroups: [snapshots],
    resources: ["volumesnapshots/status"],
    verbs: ["update", "patch"],
  },
  {
    why: "that a content is to be deleted, is told in its status",
    apiGroups: [snapshots],
    resources: ["volumesnapshotcontents/status"],
    verbs: ["patch"],
  },
];

/** And for snapshots of groups. */
export const groupRights: readonly Right[] = [
  { why: "classes of groups are read", apiGroups: [groups], resources: ["volumegroupsnapshotclasses"], verbs: follow },
  {
    why: "the content of a group is made, bound and released",
    apiGroups: [groups],
    resources: ["volumegroupsnapshotcontents"],
    verbs: [...follow, ...change],
  },
  {
    why: "groups get their class, finalizers and binding",
    apiGroups: [groups],
    resources: ["volumegroupsnapshots"],
    verbs: [...follow, "update", "patch"],
  },
  {
    why: "how a group is, is told in its status",
    apiGroups: [groups],
    resources: ["volumegroupsnapshots/status"],
    verbs: ["update", "patch"],
  },
  {
    why: "that a group's content is to be deleted, is told in its status",
    apiGroups: [groups],
    resources: ["volumegroupsnapshotcontents/status"],
    verbs: ["patch"],
  },
];

/** In its own namespace. */
export const leaseRights: readonly Right[] = [
  {
    why: "one of several controllers works: the one that holds the lease",
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: [...follow, "create", "update", "delete"],
  },
];
