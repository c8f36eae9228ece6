import { RametError } from "../../base/errors.ts";
import { annotations } from "../names/labels.ts";
import type { Pod } from "../schema/pod.ts";

/**
 * What becomes of a sandbox whose Pod others end, as a drain, a preemption or `kubectl delete pod` does: it continues in another Pod, it
 * is paused, or it ends.
 */
export const disruptionPolicies = ["Migrate", "Pause", "End"] as const;
export type DisruptionPolicy = (typeof disruptionPolicies)[number];

/** @throws RametError `InvalidArgument` that names `field` */
export function parseDisruptionPolicy(text: string, field: string): DisruptionPolicy {
  const found = disruptionPolicies.find((policy) => policy === text);
  if (found !== undefined) return found;
  throw new RametError("InvalidArgument", `${field}: ${JSON.stringify(text)} is not Migrate, Pause or End`);
}

/** What nobody has chosen: a sandbox keeps what a pause of it keeps. Files alone start its programs again, so it waits for its user. */
export function defaultDisruptionPolicy(
  contents: readonly string[] = [],
  pauseStrategy: { type?: string | undefined } | undefined,
): DisruptionPolicy {
  if (pauseStrategy?.type === "Stop") return "End";
  return contents.includes("filesystem") && !contents.includes("memory") ? "Pause" : "Migrate";
}

/** The policy with which a Pod was created. Pods of earlier releases have none, and their cells hold no end. */
export function disruptionPolicyOf({ metadata }: Pick<Pod, "metadata">): DisruptionPolicy {
  const text = metadata.annotations?.[annotations.onDisruption];
  return disruptionPolicies.find((policy) => policy === text) ?? "End";
}

/** What a capture needs at least, and Kubernetes' default. */
const leastGraceSeconds = 30;

/** The Pod's grace period, if its end is held for a capture. Undefined: it is the template's. */
export function heldGraceSeconds(policy: DisruptionPolicy, own: number | undefined): number | undefined {
  return policy === "End" ? undefined : Math.max(leastGraceSeconds, own ?? 0);
}

/** Lets the cluster autoscaler end the Pod, unless the template decides. */
export function evictionAnnotations(policy: DisruptionPolicy): Record<string, string> {
  return policy === "End" ? {} : { "cluster-autoscaler.kubernetes.io/safe-to-evict": "true" };
}
