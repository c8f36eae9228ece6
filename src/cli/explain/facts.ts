import * as z from "zod";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { ObjectMeta } from "../../kube/object.ts";
import type { Explanation } from "./explanation.ts";
import type { LeaseObject } from "../../kube/lease.ts";
import type { Seen } from "../../preflight/finding.ts";

const Text = z.string().nullish();

const ContainerState = z.looseObject({
  waiting: z.looseObject({ reason: Text, message: Text }).nullish(),
  running: z.looseObject({}).nullish(),
  terminated: z.looseObject({ exitCode: z.number(), reason: Text, message: Text, finishedAt: Text }).nullish(),
});

const ContainerStatus = z.looseObject({
  name: z.string(),
  image: Text,
  ready: z.boolean().default(false),
  started: z.boolean().nullish(),
  restartCount: z.number().default(0),
  state: ContainerState.nullish(),
  lastState: ContainerState.nullish(),
});
export type ContainerFacts = z.infer<typeof ContainerStatus>;

const StatusCondition = z.looseObject({
  type: z.string(),
  status: z.string(),
  reason: Text,
  message: Text,
  lastTransitionTime: Text,
});

const Probe = z.looseObject({
  periodSeconds: z.number().nullish(),
  httpGet: z.looseObject({ port: z.unknown(), path: z.unknown() }).nullish(),
});
export type ProbeFacts = z.infer<typeof Probe>;

const ContainerSpec = z.looseObject({
  name: z.string(),
  image: Text,
  restartPolicy: Text,
  env: z.array(z.looseObject({ name: z.string(), value: z.string().optional() })).optional(),
  startupProbe: Probe.nullish(),
  readinessProbe: Probe.nullish(),
  livenessProbe: Probe.nullish(),
});

/** The fields of a Pod that explain why it does not run (Kubernetes API v1.36). */
export const PodFacts = z.looseObject({
  metadata: ObjectMeta.extend({ deletionGracePeriodSeconds: z.number().nullish() }),
  spec: z.looseObject({
    nodeName: Text,
    containers: z.array(ContainerSpec).default([]),
    initContainers: z.array(ContainerSpec).default([]),
    volumes: z.array(z.looseObject({ image: z.looseObject({ reference: z.string() }).optional() })).default([]),
  }),
  status: z
    .looseObject({
      phase: Text,
      reason: Text,
      message: Text,
      conditions: z.array(StatusCondition).default([]),
      initContainerStatuses: z.array(ContainerStatus).default([]),
      containerStatuses: z.array(ContainerStatus).default([]),
    })
    .default({ conditions: [], initContainerStatuses: [], containerStatuses: [] }),
});
export type PodFacts = z.infer<typeof PodFacts>;

/** The fields of a Node that show whether its kubelet works. */
export const NodeFacts = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({ unschedulable: z.boolean().optional() }).default({}),
  status: z.looseObject({ conditions: z.array(StatusCondition).default([]) }).default({ conditions: [] }),
});
export type NodeFacts = z.infer<typeof NodeFacts>;

/** An Event in the form of events.k8s.io, which also has the fields of older ones. */
export const EventFacts = z.looseObject({
  metadata: ObjectMeta,
  type: Text,
  reason: Text,
  note: Text,
  regarding: z.looseObject({ kind: Text, name: Text, uid: Text, fieldPath: Text }).nullish(),
  eventTime: Text,
  series: z.looseObject({ count: z.number().nullish(), lastObservedTime: Text }).nullish(),
  deprecatedFirstTimestamp: Text,
  deprecatedLastTimestamp: Text,
  deprecatedCount: z.number().nullish(),
});
export type EventFacts = z.infer<typeof EventFacts>;

/** When the Event was last observed. */
export function lastSeen(event: EventFacts): string {
  const { series, deprecatedLastTimestamp, eventTime, metadata } = event;
  return series?.lastObservedTime ?? deprecatedLastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? "";
}

/** When the Event was first observed, as far as it says. */
export function firstSeen(event: EventFacts): string {
  return event.deprecatedFirstTimestamp ?? lastSeen(event);
}

/** A value that may be absent, or why it could not be read. */
export type Read<T> = Seen<T | undefined>;

export function valueOf<T>(read: Read<T>): T | undefined {
  return "value" in read ? read.value : undefined;
}

/** The facts that are read for every object. */
export interface CommonFacts {
  now: Date;
  /** The Lease of the controllers. A local cluster has none. */
  controllers: Read<LeaseObject>;
}

/** Why another object is in its state. */
export interface Cause {
  /** `sandbox/a`. */
  object: string;
  explanation: Explanation;
}

/** Whether the other object is the problem, rather than one that needs more time. */
export function isProblem(cause: Cause | undefined): cause is Cause {
  return cause?.explanation.state === "stuck" || cause?.explanation.state === "failed";
}

/** Where a problem was found. */
export function foundIn(cause: Cause | undefined): { foundIn?: string } {
  return isProblem(cause) ? { foundIn: cause.explanation.foundIn ?? cause.object } : {};
}

/** A sandbox with what its state depends on. */
export interface SandboxFacts extends CommonFacts {
  sandbox: Sandbox;
  pod: Read<PodFacts>;
  /** Those of the sandbox and of its Pod, the latest first. */
  events: Read<EventFacts[]>;
  node: Read<NodeFacts>;
  /** The Lease that the node's kubelet renews. */
  nodeLease: Read<LeaseObject>;
}

/** Seconds from `since` (RFC 3339) until `now`; infinitely many if it is not known. */
export function secondsSince(since: string | undefined, now: Date): number {
  const instant = Date.parse(since ?? "");
  return Number.isNaN(instant) ? Number.POSITIVE_INFINITY : (now.getTime() - instant) / 1000;
}
