import type { Found } from "./explanation.ts";
import { type CommonFacts, valueOf, secondsSince } from "./facts.ts";

interface Processed {
  metadata: {
    generation?: number | undefined;
    creationTimestamp?: string | undefined;
    deletionTimestamp?: string | undefined;
  };
  status?: { observedGeneration?: number | undefined } | undefined;
}

/** Recognizes that no controller has processed the object, or its last change. */
export function unprocessed(object: Processed, { now, controllers }: CommonFacts): Found | undefined {
  const { metadata, status } = object;
  const isProcessed = status?.observedGeneration !== undefined && status.observedGeneration === metadata.generation;
  const since = metadata.deletionTimestamp ?? metadata.creationTimestamp;
  if (isProcessed || secondsSince(since, now) < patienceSeconds) return undefined;
  const what = status === undefined ? "No controller has processed it" : "No controller has processed its last change";
  return {
    cause: `${what}${controllerState(controllers, now)}`,
    reason: "ControllerSilent",
    since: status === undefined ? since : undefined,
    retry: "The controllers process it as soon as they run",
    action:
      "Start the controllers: kubectl get pods -A -l app.kubernetes.io/component=controller shows why they do not run; on one machine: ramet local up",
    foundIn: "lease/ramet-controllers",
  };
}

/** A controller reports within a second. */
const patienceSeconds = 5;

function controllerState(read: CommonFacts["controllers"], now: Date): string {
  if ("unknown" in read) return `, and whether one runs is unknown: ${read.unknown}`;
  const spec = valueOf(read)?.spec;
  if (spec === undefined) return ": none has ever held the lease ramet-controllers in ramet-system";
  const { holderIdentity, renewTime, leaseDurationSeconds } = spec;
  if (holderIdentity == null || holderIdentity === "") return ": the last one released its lease and none has taken it";
  const seconds = secondsSince(renewTime ?? undefined, now);
  return seconds > (leaseDurationSeconds ?? 15)
    ? `: ${holderIdentity} has not renewed its lease for ${Math.round(seconds)} s`
    : `, although ${holderIdentity} holds the lease and renewed it ${Math.max(0, Math.round(seconds))} s ago`;
}
