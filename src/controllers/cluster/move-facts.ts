import { isDeepStrictEqual } from "node:util";
import type { DisruptionCause, Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { disruptionPolicyOf } from "../../api/pod/disruption.ts";
import { Pod } from "../../api/schema/pod.ts";
import { isNodeReady, leavingNode, type Taint } from "../../api/state/node.ts";
import {
  added,
  type Amounts,
  amountsOf,
  type Placement,
  placementOf,
  requestsOf,
  type TargetNode,
  without,
} from "../../api/state/target.ts";
import { RametError, resultOr } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import type { Change } from "../../kube/store.ts";
import type { Node } from "../nodes/nodes.ts";
import { isSavedFrom, isUnderWay } from "./pause-checkpoint.ts";
import type { Candidate } from "./plan-moves.ts";
import { cellRuns, isEnded, unscheduledWords } from "./pod-facts.ts";
import type { Informers } from "./resources.ts";

/** A pause takes a sandbox from its user, so it waits for the end of a node that is only cordoned. */
export function isCandidate(sandbox: Sandbox, pod: Pod, cause: DisruptionCause): boolean {
  const waitsForEnd = cause === "NodeCordoned" && disruptionPolicyOf(pod) === "Pause";
  return (
    runsIn(sandbox, pod) &&
    isSavedFrom(sandbox, pod) &&
    !waitsForEnd &&
    !isUnderWay(sandbox.status?.ramet?.disruption) &&
    !hasReturned(sandbox, pod, cause)
  );
}

/** Whether the sandbox moves only if another node takes it. A kubelet that shuts down ends the Pod without a deletion that would say so. */
export function needsTargetOf(pod: Pod, cause: DisruptionCause): boolean {
  return disruptionPolicyOf(pod) === "Migrate" && cause !== "NodeShutdown";
}

/** Whether the Pod that a move has created is on the node that the sandbox has left: the next one would be too. */
function hasReturned({ status }: Sandbox, { metadata, spec }: Pod, cause: DisruptionCause): boolean {
  const { outcome, nodeName, endedAt = "", cause: before } = status?.ramet?.disruption ?? {};
  const isNext = Date.parse(metadata.creationTimestamp) <= Date.parse(endedAt);
  return outcome === "Migrated" && before === cause && nodeName === spec.nodeName && isNext;
}

function runsIn({ metadata, spec, status }: Sandbox, pod: Pod): boolean {
  const isCurrent = status?.phase === "Running" && status.podInfo?.podUID === pod.metadata.uid;
  const isDeleted = [metadata, pod.metadata].some(({ deletionTimestamp }) => deletionTimestamp !== undefined);
  return isCurrent && !isDeleted && spec.paused !== true && !isEnded(pod);
}

/** It waits for its next Pod. */
export function isCaptured({ spec, status }: Sandbox): boolean {
  return status?.phase === "Paused" && spec.paused !== true && isUnderWay(status.ramet?.disruption);
}

/** So long, a Pod shows an autoscaler that a node is missing, and a new node may not have told all of its labels and devices. */
export const pendingMilliseconds = 300_000;
/** After a Pod that no node took, a sandbox waits so long for its next one. */
export const noTargetMilliseconds = 600_000;
/** After one that no node could take, which shows only the next one to an autoscaler. */
export const firstNoTargetMilliseconds = 60_000;

/** Whether a captured sandbox waits for a node. @param gainedAt when the cluster last had another node for Pods */
export function awaitsNode({ status }: Sandbox, now: number, gainedAt: number): boolean {
  const { retryAt = "", pausedAt } = status?.ramet?.noTarget ?? {};
  const retries = Date.parse(retryAt);
  const since = pausedAt === undefined ? retries - noTargetMilliseconds : Date.parse(pausedAt);
  return now < retries && gainedAt < since;
}

/** A move that takes longer keeps no other one waiting. */
const longestMoveMilliseconds = 300_000;

/** Whether a sandbox that moves has its turn: without those that are paused by their users, wait for a node, or take too long. */
export function takesTurn(sandbox: Sandbox, now: number, gainedAt: number): boolean {
  const { spec, status } = sandbox;
  const staysPaused = status?.phase === "Paused" && (spec.paused === true || awaitsNode(sandbox, now, gainedAt));
  return !staysPaused && now < begunAt(status) + longestMoveMilliseconds;
}

/** When it was captured, or when its resume began, which can be much later. */
function begunAt(status: Sandbox["status"]): number {
  const resumed = status?.phase === "Resuming" ? findCondition(status.conditions, "SandboxResumed") : undefined;
  return Date.parse(resumed?.lastTransitionTime ?? status?.ramet?.disruption?.at ?? "");
}

/**
 * Whether a node may take Pods that it did not take before: it is added, uncordoned or ready again, or it got labels, devices or room,
 * as from the drivers that start on a new node, or lost a taint. Sandboxes may tolerate those that it has: a try in vain costs a Pod.
 */
export function isGained(change: Change<Node>): boolean {
  if (change.type === "deleted" || !isOpen(change.object)) return false;
  return change.type === "added" || !isOpen(change.previous) || offersMore(change.object, change.previous);
}

function isOpen({ metadata, spec, status }: Node): boolean {
  return isNodeReady({ status }) && spec.unschedulable !== true && metadata.deletionTimestamp === undefined;
}

function offersMore(node: Node, before: Node): boolean {
  const had = amountsOf(before.status.allocatable ?? {});
  const isMore = ([key, amount]: [string, number]) => amount > (had[key] ?? 0);
  const isKept = (taint: Taint) => node.spec.taints?.some((one) => isDeepStrictEqual(one, taint)) === true;
  return (
    !isDeepStrictEqual(node.metadata.labels, before.metadata.labels) ||
    before.spec.taints?.every(isKept) === false ||
    Object.entries(amountsOf(node.status.allocatable ?? {})).some(isMore)
  );
}

/** A sandbox whose node leaves. */
export interface Found {
  key: string;
  uid: string;
  cause: DisruptionCause;
  mark: string;
  candidate?: Candidate;
}

/** @param used what Pods request on the node */
export function targetOf(node: Node, used: readonly Amounts[]): TargetNode {
  const { metadata, spec, status } = node;
  const free = without(amountsOf(status.allocatable ?? {}), added(used));
  return { metadata, spec, isReady: isNodeReady(node), free };
}

export function factsOfNode(node: Node): unknown[] {
  const { deletionTimestamp, labels, annotations: own } = node.metadata;
  const { spec, status } = node;
  const isLeaving = leavingNode(node).leaving;
  return [
    spec,
    deletionTimestamp,
    labels,
    own?.[annotations.moveSandboxes],
    status.allocatable,
    isNodeReady(node),
    isLeaving,
  ];
}

export function factsOfPod(pod: Pod): unknown[] {
  const { metadata, spec } = pod;
  return [spec.nodeName, metadata.deletionTimestamp, isEnded(pod), unscheduledWords(pod) === undefined, cellRuns(pod)];
}

export function factsOfSandbox({ metadata, spec, status }: Sandbox): unknown[] {
  const { podInfo, phase, ramet } = status ?? {};
  const isClaimed = metadata.labels?.[labels.sandboxClaimed];
  return [
    phase,
    podInfo?.podUID,
    podInfo?.nodeName,
    ramet?.disruption,
    ramet?.noTarget?.retryAt,
    ramet?.startingPod?.podUID,
    spec.paused,
    isClaimed,
    metadata.deletionTimestamp,
  ];
}

/** The Pod of a sandbox, or the last one of a sandbox that moves, as if no node had it: until there is a next one, it needs room. */
export function podOrLast({ pods, sandboxes }: Pick<Informers, "pods" | "sandboxes">) {
  const last = new Map<string, Pod>();
  pods.store.subscribe(({ type, object }) => {
    const key = keyOf(object.metadata);
    const { nodeName: _, ...spec } = object.spec;
    const isMoving = isUnderWay(sandboxes.store.get(key)?.status?.ramet?.disruption);
    if (type === "deleted" && isMoving) last.set(key, { ...object, spec });
    else last.delete(key);
  });
  sandboxes.store.subscribe(({ type, object }) => {
    if (type === "deleted") last.delete(keyOf(object.metadata));
  });
  return (key: string): Pod | undefined => pods.store.get(key) ?? last.get(key);
}

/**
 * As the template of a sandbox has it, for one whose last Pod was removed before these controllers ran. The cell needs some more.
 * Undefined: the sandbox names a template, which may have changed, or its own is invalid. Users can change it at any time.
 */
export function podOfTemplate({ metadata, spec: { template } }: Sandbox): Pod | undefined {
  const pod = template && Pod.safeParse({ metadata, spec: template["spec"] }).data;
  const place = pod && resultOr(() => placementOf(pod, {}), undefined);
  return place && pod;
}

/** Where a captured sandbox continues. Its memory needs a CPU like that of its last node. */
export function placeOfMoving(
  { pod, nodeName }: { pod?: Pod; nodeName: string },
  nodes: Pick<Informer<Node>, "store">,
): Placement | undefined {
  return pod && { ...placementOf(pod, nodes.store.get(nodeName)?.metadata.labels ?? {}), cpuOf: nodeName };
}

/** The priority is that of its Pod, or of its last one. */
export function orderOf({ metadata, status }: Sandbox, pod: Pod | undefined) {
  const { namespace, creationTimestamp: createdAt } = metadata;
  const priority = pod === undefined ? status?.ramet?.disruption?.priority : priorityOf(pod);
  return { key: keyOf(metadata), namespace, priority: priority ?? 0, createdAt };
}

/** Undefined: 0. */
export function priorityOf(pod: Pod | undefined): number | undefined {
  return Number(pod?.spec["priority"] ?? 0) || undefined;
}

const RequestingPod = Pod.pick({ metadata: true, spec: true });

/**
 * What the Pods of others request, by node. The controllers follow sandboxes only, so this is read when one is to move.
 * @param served the namespaces whose Pods they can list. @default all
 * @returns undefined: it cannot be read now
 */
export async function requestsOfOthers(
  client: KubeClient,
  served: readonly string[] | undefined,
  log: Log,
): Promise<ReadonlyMap<string, Amounts> | undefined> {
  const pods = client.resource(coreResources.pods, (value) => RequestingPod.parse(value));
  const selected = { labelSelector: `${labels.cell}!=true`, fieldSelector: running };
  const of = served?.map((namespace) => ({ ...selected, namespace })) ?? [selected];
  try {
    const items = (await Promise.all(of.map((one) => pods.list(one)))).flatMap((list) => list.items);
    const byNode = Map.groupBy(items, ({ spec }) => spec.nodeName ?? "");
    return new Map([...byNode].map(([node, all]) => [node, added(all.map(requestsOf))]));
  } catch (error) {
    log.warn(
      { error: RametError.from(error).message },
      "cannot read what other Pods request: moves to other nodes wait",
    );
    return undefined;
  }
}

const running = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
