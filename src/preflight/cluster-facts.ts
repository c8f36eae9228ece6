import * as z from "zod";
import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import type { Pod } from "../api/schema/pod.ts";
import type { StoreReport } from "../api/store/store-report.ts";
import { Selector } from "../api/state/target.ts";
import { AnyObject, ObjectMeta } from "../kube/object.ts";
import type { OtherController } from "../kube/other-controllers.ts";
import type { Seen } from "./finding.ts";
import type { ObservedCrd } from "./snapshot-objects.ts";

/** The fields of a Node that are checked (Kubernetes API v1.36). */
export const ClusterNode = z.looseObject({
  metadata: ObjectMeta,
  spec: z
    .looseObject({
      unschedulable: z.boolean().optional(),
      taints: z.array(z.looseObject({ key: z.string(), value: z.string().optional(), effect: z.string() })).optional(),
    })
    .default({}),
  status: z
    .looseObject({
      conditions: z
        .array(z.looseObject({ type: z.string(), status: z.string(), message: z.string().nullish() }))
        .default([]),
      nodeInfo: z
        .looseObject({
          architecture: z.string().default(""),
          kernelVersion: z.string().default(""),
          containerRuntimeVersion: z.string().default(""),
          kubeletVersion: z.string().default(""),
        })
        .default({ architecture: "", kernelVersion: "", containerRuntimeVersion: "", kubeletVersion: "" }),
      runtimeHandlers: z
        .array(
          z.looseObject({
            name: z.string().default(""),
            features: z.looseObject({ userNamespaces: z.boolean().optional() }).nullish(),
          }),
        )
        .default([]),
    })
    .prefault({}),
});
export type ClusterNode = z.infer<typeof ClusterNode>;

/** A Lease with the time of its last write, which is the API server's. */
export interface RenewedLease {
  /** The node or the component whose clock wrote `renewTime`. */
  name: string;
  holder: string;
  renewTime: string;
  durationSeconds: number;
  /** When the API server accepted the last renewal. */
  writtenAt: string | undefined;
}

export interface Right {
  verb: string;
  group: string;
  resource: string;
  subresource?: string;
  namespaced: boolean;
  /** The purpose that it is needed for. */
  purpose: string;
}

export interface VolumeClass {
  name: string;
  driver: string;
  isDefault: boolean;
}

export interface VolumeClasses {
  storage: VolumeClass[];
  /** Undefined: the cluster has no VolumeSnapshots. */
  snapshots: VolumeClass[] | undefined;
}

/** A Pod whose node cannot pull the cell image, with the node's words. */
export interface UnpulledCell {
  image: string;
  why: string;
}

/** A CRD of external-snapshotter. */
export interface SnapshotCrd extends Pick<ObservedCrd, "name" | "stored" | "conversionService"> {
  /** Whether the service of its conversion webhook exists. */
  hasService: boolean;
}

export interface SnapshotControllerPod {
  /** `namespace/name`. */
  name: string;
  /** The tag of its image; empty without one. */
  version: string;
  restarts: number;
  /** Why it last ended, such as `OOMKilled`. */
  lastEnd: string | undefined;
}

/** A VolumeSnapshotContent, as far as its owner matters. */
export interface SnapshotContentRecord {
  name: string;
  driver: string;
  deletionPolicy: string;
  handle: string | undefined;
  createdAt: string | undefined;
  /** Whether the VolumeSnapshot to which it refers does not exist, or is another one of the same name. */
  isOrphan: boolean;
}

/** One limit of a ResourceQuota on volumes or snapshots. */
export interface VolumeQuota {
  quota: string;
  resource: string;
  hard: string;
  used: string;
}

/** A snapshot that the storage has, from the storage's own list. */
export interface StoredSnapshot {
  handle: string;
  /** RFC 3339; undefined if the list does not say. */
  createdAt: string | undefined;
}

export interface SnapshotClusterFacts {
  /** Those that exist. Without any, the cluster has no VolumeSnapshots. */
  crds: Seen<SnapshotCrd[]>;
  controllers: Seen<SnapshotControllerPod[]>;
  contents: Seen<SnapshotContentRecord[]>;
  /** Those of the user's namespace. */
  quotas: Seen<VolumeQuota[]>;
  /** Undefined: the user gave no list. */
  stored: readonly StoredSnapshot[] | undefined;
}

/** A PodDisruptionBudget: which Pods it selects, and how many of them may be evicted now. */
export const DisruptionBudget = AnyObject.extend({
  spec: z.looseObject({ selector: Selector.nullish() }),
  status: z.looseObject({ disruptionsAllowed: z.number().default(0) }).default({ disruptionsAllowed: 0 }),
});
export type DisruptionBudget = z.infer<typeof DisruptionBudget>;

/** Everything that the checks look at. Reading it changes nothing. */
export interface ClusterFacts {
  now: Date;
  /** The namespace in which the user works. */
  namespace: string;
  /** Beside which controllers Ramet works or is to be installed; undefined: beside none. */
  beside: Seen<string | undefined>;
  version: Seen<string>;
  /** The API server's clock, and how long the request for it took. */
  serverTime: Seen<{ at: Date; roundTripMilliseconds: number }>;
  nodes: Seen<ClusterNode[]>;
  nodeLeases: Seen<RenewedLease[]>;
  /** The Lease of Ramet's controllers; undefined: there is none. */
  controllers: Seen<RenewedLease | undefined>;
  /** The names of Ramet's CRDs that exist. */
  crds: Seen<{ found: string[]; missing: string[] }>;
  others: Seen<OtherController[]>;
  /** The Pod Security level that the namespace enforces; undefined: none; null: the namespace does not exist. */
  podSecurity: Seen<string | undefined | null>;
  unpulledCells: Seen<UnpulledCell[]>;
  /** The Pods of sandboxes, as far as they have not ended. */
  cells: Seen<Pod[]>;
  captures: Seen<Checkpoint[]>;
  /** How long kubelets let Pods run at a shutdown of the node; 0: not at all. Of some nodes. */
  shutdowns: Seen<{ node: string; seconds: number }[]>;
  budgets: Seen<DisruptionBudget[]>;
  volumeClasses: Seen<VolumeClasses>;
  snapshots: SnapshotClusterFacts;
  /** The controllers' report about the store; undefined: nothing yet. */
  store: Seen<StoreReport | undefined>;
  /** The rights that the caller lacks. */
  missingRights: Seen<Right[]>;
}
