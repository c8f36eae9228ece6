import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { finalizers } from "../../api/names/labels.ts";
import { hasEnded } from "../../api/state/sandbox.ts";
import { isErrorCode } from "../../base/error-codes.ts";
import { findCondition } from "../../kube/conditions.ts";
import { type Found, generalRemedy, nothingToDo, reportOf } from "./explanation.ts";
import { type PodFacts, type SandboxFacts, valueOf, secondsSince } from "./facts.ts";
import { silentNode } from "./node-rules.ts";

/** The controllers' report about a sandbox that is not ready. */
export interface Report {
  problem: Problem;
  since: string;
}

export function unreadiness({ metadata, status }: Sandbox): Report {
  const ready = findCondition(status?.conditions, "Ready");
  const message = status?.message ?? ready?.message ?? "";
  return {
    problem: reportOf(status, { type: "Ready", reason: ready?.reason ?? "PodStarting", message }),
    since: ready?.lastTransitionTime ?? metadata.creationTimestamp,
  };
}

/** Recognizes a sandbox that has ended. It stays so, whatever happens to its node or the controllers. */
export function ended({ sandbox }: SandboxFacts): Found | undefined {
  const { metadata, status } = sandbox;
  if (metadata.deletionTimestamp !== undefined || !hasEnded(sandbox)) return undefined;
  const { problem, since } = unreadiness(sandbox);
  const { cause, hint, code: reason, object } = problem;
  const common = { state: "failed", reason, since } as const;
  if (status?.phase === "Succeeded" && object?.kind === "Checkpoint") {
    const { name, namespace } = metadata;
    return {
      ...common,
      cause: `It was stopped by the checkpoint ${object.name} (keepRunning is false)`,
      retry: "None: a sandbox that has ended stays so",
      action: `Clone the checkpoint, or delete the sandbox: ramet sandbox rm ${name} -n ${namespace}`,
    };
  }
  if (status?.phase === "Succeeded") {
    return {
      ...common,
      cause: `Its entrypoint ended: ${cause}`,
      retry: "None: a sandbox that has ended stays so",
      action: "Give the template a command that keeps running, such as sleep infinity, and create the sandbox again",
    };
  }
  return {
    ...common,
    cause,
    retry: "None: a failed sandbox stays so, unless it is rolled back to a checkpoint",
    action: hint ?? remedyOf(reason, metadata),
  };
}

function remedyOf(reason: string, { name, namespace }: { name: string; namespace: string }): string {
  if (isErrorCode(reason)) return generalRemedy(reason);
  const again = "Create the sandbox again from its template or a checkpoint";
  return podEnds[reason] ?? `${again}; its Pod's log may say more: kubectl logs ${name} -n ${namespace}`;
}

/** Reasons that a node gives for the end of a Pod (Kubernetes v1.36). */
const podEnds: Readonly<Record<string, string>> = {
  OOMKilled: "Raise the memory limit in the template, and create the sandbox again",
  Evicted: "Set requests in the template that the sandbox keeps to, and create it again",
  DeadlineExceeded: "Raise activeDeadlineSeconds in the template, and create the sandbox again",
};

/** Recognizes what a deletion waits for. */
export function terminating(facts: SandboxFacts): Found | undefined {
  const { metadata } = facts.sandbox;
  if (metadata.deletionTimestamp === undefined) return undefined;
  const pod = valueOf(facts.pod);
  if (pod !== undefined) return silentDeletion(facts) ?? endingPod(facts, pod);
  const others = foreignFinalizers(metadata);
  const common = { reason: "Terminating", since: metadata.deletionTimestamp };
  if (others.length === 0) {
    const retry = "The controllers remove it when its Pod and data are gone";
    return { ...common, state: "waiting", cause: "It is being deleted", retry };
  }
  return {
    ...common,
    cause: `Its deletion waits for the finalizers of other controllers: ${others.join(", ")}`,
    retry: "Each controller removes its finalizer when it has cleaned up",
    action: `Start the controller of ${others[0] ?? ""}, or remove the finalizer if that controller is gone`,
  };
}

const ownFinalizers: ReadonlySet<string> = new Set(Object.values(finalizers));

export function foreignFinalizers({ finalizers: all = [] }: { finalizers?: string[] | undefined }): string[] {
  return all.filter((finalizer) => !ownFinalizers.has(finalizer));
}

function silentDeletion(facts: SandboxFacts): Found | undefined {
  const silent = silentNode(facts);
  if (silent === undefined) return undefined;
  const { name, namespace, deletionTimestamp } = facts.sandbox.metadata;
  return {
    ...silent,
    cause: `Its Pod cannot end. ${silent.cause}`,
    since: silent.since ?? deletionTimestamp,
    action: `If the node does not come back, run: kubectl delete pod ${name} -n ${namespace} --force --grace-period=0`,
  };
}

function endingPod({ sandbox, now }: SandboxFacts, pod: PodFacts): Found {
  const { name, namespace, deletionTimestamp } = sandbox.metadata;
  const grace = pod.metadata.deletionGracePeriodSeconds ?? 30;
  // The Pod's deletionTimestamp is the end of its grace period.
  const isLate = pod.metadata.deletionTimestamp !== undefined && secondsSince(pod.metadata.deletionTimestamp, now) > 10;
  return {
    state: isLate ? "stuck" : "waiting",
    cause: isLate ? `Its Pod has not ended after its grace period of ${grace} s` : "Its Pod is ending",
    reason: "Terminating",
    since: deletionTimestamp,
    retry: "The controllers remove it when its Pod has ended",
    action: isLate ? `Find out what keeps the Pod: kubectl describe pod ${name} -n ${namespace}` : nothingToDo,
    foundIn: `pod/${name}`,
  };
}
