import { type Checkpoint, checkpointKind } from "../api/kinds/checkpoint.ts";
import { type Sandbox, sandboxKind } from "../api/kinds/sandbox.ts";
import { annotations, labels } from "../api/names/labels.ts";
import { captureTime, disruptionPolicyOf, leastHeldSeconds } from "../api/pod/disruption.ts";
import { Pod } from "../api/schema/pod.ts";
import { isNodeReady } from "../api/state/node.ts";
import { storeSpeed } from "../api/state/checkpoint.ts";
import { misfit, placementOf } from "../api/state/target.ts";
import { defined } from "../base/defined.ts";
import { RametError, resultOr } from "../base/errors.ts";
import { quantityToBytes } from "../base/quantity.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { controllerOf } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { ClusterNode } from "./cluster-facts.ts";

export interface DrainState {
  node: string;
  nodes: readonly ClusterNode[];
  /** The Pods of sandboxes on the node. */
  pods: readonly Pod[];
  /** The sandboxes and the checkpoints of all namespaces. */
  sandboxes: readonly Sandbox[];
  checkpoints: readonly Checkpoint[];
}

/** What a drain does to one sandbox. */
export interface DrainStep {
  namespace: string;
  name: string;
  outcome: "Migrates" | "IsPaused" | "IsReplaced" | "Ends";
  why: string;
  /** Of its last checkpoint; else the memory limit, which it can reach. Absent: neither exists. */
  sizeBytes?: number;
  sizeOf?: "Checkpoint" | "MemoryLimit";
  /** How long its capture takes. Absent: the size or the store's speed is unknown. */
  captureSeconds?: number;
  /** How long the grace period leaves for the capture. */
  heldSeconds?: number;
  /** `Alone`: only if few others are captured at the same time. Absent: unknown. */
  suffices?: "Yes" | "Alone" | "No";
  /** The nodes that could run it, by their labels, taints and architecture. */
  targets?: string[];
}

export interface DrainPlan {
  node: string;
  steps: DrainStep[];
  totals: Record<DrainStep["outcome"] | "withoutTarget" | "graceTooShort" | "unknown", number>;
  /** The captures: at the same time without sharing anything, and one after another. Absent: nothing is known. */
  seconds?: { least: number; most: number };
  /** The speed of the slower captures of the past. */
  storeBytesPerSecond?: number;
}

/** What a drain of the node would do to its sandboxes. A pure function. */
export function planDrain(state: DrainState): DrainPlan {
  const storeBytesPerSecond = storeSpeed(state.checkpoints);
  const byName = new Map(state.sandboxes.map((one) => [`${one.metadata.namespace}/${one.metadata.name}`, one]));
  const planned = state.pods.flatMap((pod) => {
    const sandbox = byName.get(`${pod.metadata.namespace}/${pod.metadata.name}`);
    return sandbox === undefined ? [] : [stepOf(state, { pod, sandbox, storeBytesPerSecond })];
  });
  const times = planned.flatMap(({ captureSeconds }) => captureSeconds ?? []);
  const most = times.reduce((sum, one) => sum + one, 0);
  const steps = planned.map((step) => ({ ...step, ...defined({ suffices: verdict(step, most) }) }));
  const count = (matches: (step: DrainStep) => boolean) => steps.filter(matches).length;
  return {
    node: state.node,
    steps,
    totals: {
      Migrates: count(({ outcome }) => outcome === "Migrates"),
      IsPaused: count(({ outcome }) => outcome === "IsPaused"),
      IsReplaced: count(({ outcome }) => outcome === "IsReplaced"),
      Ends: count(({ outcome }) => outcome === "Ends"),
      withoutTarget: count(({ targets }) => targets?.length === 0),
      graceTooShort: count(({ suffices }) => suffices === "No"),
      unknown: count(({ heldSeconds, suffices }) => heldSeconds !== undefined && suffices === undefined),
    },
    ...(times.length > 0 && { seconds: { least: Math.max(...times), most } }),
    ...defined({ storeBytesPerSecond }),
  };
}

interface Subject {
  pod: Pod;
  sandbox: Sandbox;
  storeBytesPerSecond: number | undefined;
}

function stepOf(state: DrainState, { pod, sandbox, storeBytesPerSecond }: Subject): DrainStep {
  const { namespace, name } = pod.metadata;
  const fate = fateOf(pod, sandbox);
  const step = { namespace, name, ...fate };
  if (fate.outcome === "IsReplaced" || fate.outcome === "Ends") return step;
  const size = captureSize(pod, state.checkpoints);
  const captureSeconds =
    size === undefined || storeBytesPerSecond === undefined
      ? undefined
      : captureTime(size.sizeBytes, storeBytesPerSecond);
  const targets = fate.outcome === "IsPaused" ? undefined : targetsOf(state, pod).map(({ metadata }) => metadata.name);
  return {
    ...step,
    ...(targets?.length === 0 && { why: `${fate.why}; no other node could run it now, so it waits for one` }),
    ...size,
    ...defined({ captureSeconds, targets }),
    heldSeconds: leastHeldSeconds(pod.spec.terminationGracePeriodSeconds),
  };
}

/** As the controllers decide it when the Pod is ended. */
function fateOf(pod: Pod, sandbox: Sandbox): Pick<DrainStep, "outcome" | "why"> {
  const kind = controllerOf(sandbox)?.kind;
  if (kind === "NamedSnapshot") return { outcome: "IsReplaced", why: "the build of the snapshot starts again" };
  if (kind === "SandboxSet" && sandbox.metadata.labels?.[labels.sandboxClaimed] !== "true")
    return { outcome: "IsReplaced", why: "nobody has claimed it, so its set makes another one" };
  if (pod.metadata.annotations?.[annotations.onDisruption] === undefined)
    return { outcome: "Ends", why: "its Pod is of an earlier release; pause and resume it first" };
  const policy = disruptionPolicyOf(pod);
  if (policy === "End") return { outcome: "Ends", why: "its policy is End" };
  if (policy === "Pause" || sandbox.spec.paused === true)
    return { outcome: "IsPaused", why: policy === "Pause" ? "its policy is Pause" : "its pause is requested" };
  return { outcome: "Migrates", why: "its policy is Migrate" };
}

/** How much a capture of the Pod's sandbox stores: as much as its last checkpoint, else at most its memory limit. */
export function captureSize(pod: Pod, checkpoints: readonly Checkpoint[]) {
  const { namespace, name } = pod.metadata;
  const own = checkpoints.filter(
    ({ metadata, status }) =>
      metadata.namespace === namespace &&
      metadata.annotations?.[annotations.sandboxId] === `${namespace}--${name}` &&
      status?.ramet?.sizeBytes !== undefined,
  );
  const last = own.toSorted((a, b) => captureTimeOf(a) - captureTimeOf(b)).at(-1);
  const sizeBytes = last?.status?.ramet?.sizeBytes;
  if (sizeBytes !== undefined) return { sizeBytes, sizeOf: "Checkpoint" as const };
  const limit = pod.spec.containers[0]?.resources?.limits?.["memory"];
  return limit === undefined ? undefined : { sizeBytes: quantityToBytes(limit), sizeOf: "MemoryLimit" as const };
}

const captureTimeOf = ({ status }: Checkpoint): number => Date.parse(status?.ramet?.cutAt ?? "") || 0;

/** As the controllers choose a target, but for what is free on a node, its CPU features and where volumes can be attached. */
function targetsOf({ node, nodes }: DrainState, pod: Pod): ClusterNode[] {
  const own = nodes.find(({ metadata }) => metadata.name === node)?.metadata.labels ?? {};
  const place = resultOr(() => placementOf(pod, own), undefined);
  const isTarget = (one: ClusterNode) => {
    const { metadata, spec } = one;
    const taints = (spec.taints ?? []).map(({ value = "", ...taint }) => ({ ...taint, value }));
    const target = { metadata, spec: { ...spec, taints }, isReady: isNodeReady(one), free: place?.requests ?? {} };
    return place !== undefined && misfit({ ...place, nodeName: node }, target, true) === undefined;
  };
  return nodes.filter(isTarget);
}

function verdict({ captureSeconds, heldSeconds }: DrainStep, together: number): DrainStep["suffices"] {
  if (captureSeconds === undefined || heldSeconds === undefined) return undefined;
  if (captureSeconds > heldSeconds) return "No";
  return together > heldSeconds ? "Alone" : "Yes";
}

export function isRunning({ status }: Pod): boolean {
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

/** Reads what a drain of the node affects. Changes nothing. @throws RametError `NotFound` without the node */
export async function readDrain(client: KubeClient, node: string, signal: AbortSignal): Promise<DrainState> {
  const pods = client.resource(coreResources.pods, (value) => Pod.parse(value));
  const nodes = client.resource(coreResources.nodes, (value) => ClusterNode.parse(value));
  const onNode = { labelSelector: `${labels.cell}=true`, fieldSelector: `spec.nodeName=${node}`, signal };
  const [allNodes, onIt, sandboxes, checkpoints] = await Promise.all([
    nodes.list({ signal }),
    pods.list(onNode),
    client.of(sandboxKind).list({ signal }),
    client.of(checkpointKind).list({ signal }),
  ]);
  if (!allNodes.items.some(({ metadata }) => metadata.name === node)) {
    throw new RametError("NotFound", `The node ${node} does not exist`, {
      hint: "List the nodes with: kubectl get nodes",
    });
  }
  return {
    node,
    nodes: allNodes.items,
    pods: onIt.items.filter(isRunning),
    sandboxes: sandboxes.items,
    checkpoints: checkpoints.items,
  };
}
