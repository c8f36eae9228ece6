import type { Registry } from "prom-client";
import type { RuntimeEgress } from "../../api/egress/effective-egress.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { RequestSeal } from "../../api/names/init-request.ts";
import type { CellPodOptions } from "../../api/pod/cell-pod.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Backends } from "../../backends/backends.ts";
import type { CredentialKeys } from "../../backends/environment-seal.ts";
import type { SandboxRuntime } from "../../backends/runtime.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import type { ControllerOptions } from "../../kube/controller.ts";
import type { EventRecorder } from "../../kube/events.ts";
import type { Informer, OwnWrites } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { RegistryTransport } from "../../registry/registry-transport.ts";
import type { Engines } from "../images/engines.ts";
import type { NodeCpus } from "../nodes/node-cpus.ts";
import type { Node } from "../nodes/nodes.ts";
import type { Cache } from "./cache.ts";
import type { DataFindings } from "./data-findings.ts";
import type { StoreReports } from "./store-reports.ts";
import type { Departures } from "./departures.ts";
import type { Informers, NamespaceQuotas } from "./resources.ts";

/** The objects of the cluster, and how this process writes them. */
export interface ClusterParts {
  client: KubeClient;
  informers: Informers;
  cache: Cache;
  /** Writes of this process to Sandboxes that its cache may not show yet. Shared by all controllers that write Sandboxes. */
  sandboxWrites: OwnWrites<Sandbox>;
  events: EventRecorder;
}

/** Time, chance, and what the process reports. */
export interface ProcessParts {
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  log: Log;
  /** Absent: nothing is measured. */
  metrics?: { registry: Registry };
}

/** The data of checkpoints. */
export interface DataParts {
  backends: Backends;
  dataFindings: DataFindings;
  storeReports: Pick<StoreReports, "captured">;
  /** Whether users with the right may import volumes. */
  importsVolumes: boolean;
  quotas: NamespaceQuotas;
}

/** The Pods of sandboxes, and the cells in them. */
export interface CellParts {
  runtime: SandboxRuntime;
  /** Seals the variables that Sandboxes carry. */
  seal: RequestSeal;
  credentialKeys: CredentialKeys;
  podOptions: Omit<CellPodOptions, "cellImage" | "start" | "egress" | "userNamespace" | PodKey> & {
    /** Decides for each Pod. @default what the template says */
    userNamespaceFor?: (template: PodTemplateSpec) => boolean;
    /** The rules that no sandbox can exceed. */
    egress?: RuntimeEgress["rules"];
  };
  /** The cell images, by the engine that they have. */
  engines: Engines;
  nodes: Pick<Informer<Node>, "store">;
  nodeCpus: NodeCpus;
  departures: Pick<Departures, "of" | "leaves" | "avoided" | "avoidsInVain" | "onChange" | "onNode">;
  /** How many sandboxes of a node are captured at the same time, if their Pods are ended. @default 4 */
  concurrentMoves?: number | undefined;
  /** The keys of every Pod that is created now. A rotation changes them. */
  podKeys: () => Pick<CellPodOptions, PodKey>;
}

/** The images of templates. */
export interface ImageParts {
  /** Connections to the registries of images. Absent: the node has the images, and knows how each is started. */
  registries?: RegistryTransport | undefined;
  /** How long a sandbox of a set or a build waits for an image that cannot be pulled. @default 180000 */
  pullTimeoutMilliseconds?: number | undefined;
}

/** The shared dependencies of all controllers of a process. */
export interface ControllerParts extends ClusterParts, ProcessParts, DataParts, CellParts, ImageParts {}

type PodKey = "publicKey" | "gatewayKey" | "keySets";

/** One controller, ready to run. */
export interface Controller extends Pick<ControllerOptions, "name" | "watches" | "reconcile"> {
  /** Reconciles requested after events that no informer reports. */
  requeues?: RequeueSource;
  /** Stops the work that runs outside reconciles. */
  close?: () => void;
}

/** Requeues keys of a controller. Has no effect before the controller leads: its queue then starts with all keys. */
export class RequeueSource {
  #add: (key: string) => void = () => undefined;

  readonly enqueue = (key: string): void => {
    this.#add(key);
  };

  /** Connects the source to the queue of a new leader. */
  connect(add: (key: string) => void): void {
    this.#add = add;
  }
}
