import { defined } from "../../base/defined.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError, resultOr } from "../../base/errors.ts";
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
export function disruptionPolicyOf({ metadata }: { metadata: Pick<Pod["metadata"], "annotations"> }): DisruptionPolicy {
  const text = metadata.annotations?.[annotations.onDisruption];
  return disruptionPolicies.find((policy) => policy === text) ?? "End";
}

/** What a capture needs at least, and Kubernetes' default. */
const leastGraceSeconds = 30;

/** The Pod's grace period, if its end is held for a capture, which needs `needed`. Undefined: it is the template's. */
export function heldGraceSeconds(policy: DisruptionPolicy, own = 0, needed = 0): number | undefined {
  return policy === "End" ? undefined : Math.max(leastGraceSeconds, own, needed);
}

/** Lets the cluster autoscaler end the Pod, unless the template decides. */
export function evictionAnnotations(policy: DisruptionPolicy): Record<string, string> {
  return policy === "End" ? {} : { "cluster-autoscaler.kubernetes.io/safe-to-evict": "true" };
}

/** How often a running sandbox is captured, as text for its Pod. */
export type CheckpointInterval = string;

const leastMilliseconds = 60_000;
const mostMilliseconds = 86_400_000;

/** @throws RametError `InvalidArgument` that names `field` */
export function parseCheckpointInterval(text: string, field: string): CheckpointInterval {
  if (text === "none") return text;
  const milliseconds = parseDuration(text, field);
  if (milliseconds >= leastMilliseconds && milliseconds <= mostMilliseconds) return text;
  throw new RametError("InvalidArgument", `${field} is not from 1m to 24h: ${JSON.stringify(text)}`, {
    hint: "Write a duration such as 10m, or none",
  });
}

/** What an administrator has chosen for the Pods of a namespace. `none` of the runtime cannot be overridden. */
export function administratorsInterval(
  ofRuntime: CheckpointInterval | undefined,
  ofNamespace: CheckpointInterval | undefined,
): CheckpointInterval | undefined {
  return ofRuntime === "none" ? ofRuntime : (ofNamespace ?? ofRuntime);
}

const keptByDefault = 2;
const mostKept = 10;

/**
 * The annotations with which a set or a Pod template says what becomes of a sandbox whose Pod is lost.
 *
 * @param field where they are, for errors
 * @throws RametError `InvalidArgument` that names one of them
 */
export function chosenDisruption(given: Readonly<Record<string, string>> = {}, field: string): Record<string, string> {
  const { onDisruption, checkpointEvery, checkpointsKept } = annotations;
  const { [onDisruption]: policy, [checkpointEvery]: every, [checkpointsKept]: kept } = given;
  const fieldOf = (name: string) => `${field}.annotations[${name}]`;
  if (policy !== undefined) parseDisruptionPolicy(policy, fieldOf(onDisruption));
  if (every !== undefined) parseCheckpointInterval(every, fieldOf(checkpointEvery));
  if (kept !== undefined && keptOf(kept) === undefined) {
    const what = `${fieldOf(checkpointsKept)}: ${JSON.stringify(kept)} is not a number from 1 to ${mostKept}`;
    throw new RametError("InvalidArgument", what);
  }
  return defined({ [onDisruption]: policy, [checkpointEvery]: every, [checkpointsKept]: kept });
}

/**
 * A Pod template with what a set, or a Sandbox without a template of its own, says itself.
 * @throws RametError `InvalidArgument` that names an annotation
 */
export function withOwnDisruption<T extends object>(
  template: T & { metadata?: { annotations?: Record<string, string> | undefined } | undefined },
  own: { annotations?: Readonly<Record<string, string>> | undefined },
): T {
  const chosen = chosenDisruption(own.annotations, "metadata");
  if (Object.keys(chosen).length === 0) return template;
  const { metadata } = template;
  return { ...template, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...chosen } } };
}

/** How often the sandbox of a Pod is captured. Nobody can override `none` of an administrator. */
export function intervalAnnotation(
  { [annotations.checkpointEvery]: chosen }: Readonly<Record<string, string>>,
  ofAdministrator: CheckpointInterval | undefined,
): Record<string, string> {
  const every = ofAdministrator === "none" ? ofAdministrator : (chosen ?? ofAdministrator);
  return defined({ [annotations.checkpointEvery]: every });
}

function keptOf(text: string): number | undefined {
  const count = Number(text);
  return /^\d{1,2}$/.test(text) && count >= 1 && count <= mostKept ? count : undefined;
}

/**
 * How often the sandbox of a Pod is captured, and how many of the captures are kept. Undefined: it is not, as one with the policy End,
 * which would not continue from there.
 */
export function automaticCheckpointsOf({
  metadata: { annotations: given = {} },
}: Pick<Pod, "metadata">): { everyMilliseconds: number; kept: number } | undefined {
  const { [annotations.checkpointEvery]: every = "none" } = given;
  // Whoever can change the Pod can change the texts.
  const everyMilliseconds = resultOr(() => parseDuration(parseCheckpointInterval(every, "")), undefined);
  if (everyMilliseconds === undefined || given[annotations.onDisruption] === "End") return undefined;
  return { everyMilliseconds, kept: checkpointsKept(given) };
}

/** How many automatic checkpoints are kept, also without an interval any more. */
export function checkpointsKept({
  [annotations.checkpointsKept]: kept = "",
}: Readonly<Record<string, string>>): number {
  return keptOf(kept) ?? keptByDefault;
}

/** How many seconds a capture takes, with what does not depend on the size. */
export function captureTime(sizeBytes: number, bytesPerSecond: number): number {
  return 1 + sizeBytes / bytesPerSecond;
}

/** The grace period that leaves so long for a capture. */
export function graceSecondsFor(captureSeconds: number): number {
  return Math.ceil(captureSeconds) + 11;
}

/** How long the cell holds its end at least: the rest of the grace period is for the program and for removing the sandbox. */
export function leastHeldSeconds(podGraceSeconds = leastGraceSeconds): number {
  return podGraceSeconds - Math.min(10, podGraceSeconds / 2) - 1;
}
