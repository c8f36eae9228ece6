import { type Checkpoint, dataAvailable } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { captureTimes, hasFailed, isCloneable, type PendingReason, whyPending } from "../../api/state/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { raisingOf } from "../../api/quota/namespace-quota.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { Holder, Storage } from "../../api/state/storage.ts";
import { defined } from "../../base/defined.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { originReferences } from "../../controllers/origin/origin.ts";
import { bucketSpaceHint } from "../../store/objects/refusal.ts";
import { scratchHint, spaceHint } from "../../store/store-error.ts";
import { shellWord, size } from "../output/render.ts";
import { findCondition } from "../../kube/conditions.ts";
import { preparationRemedy } from "../../kube/volumes/preparation.ts";
import { unprocessed } from "./controller-rules.ts";
import { foreignFinalizers } from "./end-rules.ts";
import {
  completed,
  type DataHolder,
  type Explanation,
  firstOf,
  type Found,
  nothingToDo,
  remedyIn,
  reported,
  reportOf,
  type Rule,
} from "./explanation.ts";
import { type Cause, type CommonFacts, foundIn, isProblem, secondsSince } from "./facts.ts";

export interface CheckpointFacts extends CommonFacts {
  checkpoint: Checkpoint;
  /** Why its source is in its state; undefined if the source does not exist. */
  source: Cause | undefined;
}

export function explainCheckpoint(facts: CheckpointFacts): Explanation {
  return completed(rules(facts) ?? underWay(facts));
}

const rules: Rule<CheckpointFacts> = firstOf(
  failed,
  (facts) => unprocessed(facts.checkpoint, facts),
  terminating,
  lost,
  succeeded,
);

function failed({ checkpoint, source }: CheckpointFacts): Found | undefined {
  const { status } = checkpoint;
  if (status === undefined || !hasFailed(checkpoint)) return undefined;
  const message = status.message ?? "no reason is given";
  const described = reportOf(status, { type: "Ready", reason: "Failed", message });
  const final = {
    state: "failed",
    reason: described.code,
    since: status.completionTime,
    retry: "None: a failed checkpoint stays so, and its source continues as before",
  } as const;
  if (described.code === "SandboxNotReady" && isProblem(source)) {
    const { cause, action } = source.explanation;
    return { ...final, cause: `${described.cause}. ${cause}`, action, ...foundIn(source) };
  }
  return { ...final, cause: described.cause, action: remedyIn(described, "Create another Checkpoint") };
}

function terminating({ checkpoint, now }: CheckpointFacts): Found | undefined {
  const { metadata, status } = checkpoint;
  if (metadata.deletionTimestamp === undefined) return undefined;
  const [foreign] = foreignFinalizers(metadata);
  const isLate = secondsSince(metadata.deletionTimestamp, now) > 60;
  const common = { reason: "Terminating", since: metadata.deletionTimestamp };
  if (foreign !== undefined) {
    return {
      ...common,
      cause: `Its deletion waits for the finalizer ${foreign}`,
      retry: "The controller of the finalizer removes it when it has cleaned up",
      action: `Start the controller of ${foreign}, or remove the finalizer if that controller is gone`,
    };
  }
  const isCaptured = status?.phase === "Creating";
  return {
    ...common,
    state: isLate ? "stuck" : "waiting",
    cause: isCaptured ? "It is deleted when its capture has ended" : "Its data has not been removed from the store yet",
    retry: "The controllers try again after growing pauses of at most 5 minutes",
    action: isLate ? "Check the store: ramet doctor" : nothingToDo,
  };
}

/** It succeeded, but its data was not found since. */
function lost({ checkpoint: { status } }: CheckpointFacts): Found | undefined {
  const condition = findCondition(status?.conditions, dataAvailable);
  if (condition?.status !== "False") return undefined;
  const { reason } = condition;
  return reported(status, condition, {
    cause: `It cannot be cloned: ${reportOf(status, condition).cause}`,
    reason,
    retry:
      reason === "DataMissing"
        ? "The controllers look for the data every 10 minutes"
        : "None: each clone reads the data again",
    otherwise: "Delete the Checkpoint, and capture its source again",
  });
}

function succeeded({ checkpoint }: CheckpointFacts): Found | undefined {
  const { spec, status } = checkpoint;
  if (status === undefined || !isCloneable(checkpoint)) return undefined;
  const lacking = status.conditions?.find((condition) => condition.status === "False");
  const since = status.completionTime;
  if (lacking === undefined) {
    const times = captureTimes(checkpoint).join(", ");
    return {
      state: "healthy",
      cause: `It can be cloned${times === "" ? "" : ` (${times})`}${ownership(spec)}`,
      since,
    };
  }
  const { cause, hint } = reportOf(status, lacking);
  return {
    state: "degraded",
    cause: `It can be cloned, but ${lacking.type} is False: ${cause}`,
    reason: lacking.reason,
    since,
    retry: "None: a checkpoint is immutable",
    action: hint ?? "Save what the cause names in another way",
  };
}

function ownership({ volumeImport }: Checkpoint["spec"]): string {
  if (volumeImport === undefined) return "";
  return volumeImport.takeOwnership === true
    ? ". Its volumes are imported, and own their data: it is deleted with the last checkpoint of this cluster that has it"
    : ". Its volumes are imported: their data is kept when it is deleted, unless this cluster has captured it and no other checkpoint has it";
}

function underWay({ checkpoint, source, now }: CheckpointFacts): Found {
  const { metadata, spec, status } = checkpoint;
  const since = metadata.creationTimestamp;
  if (spec.volumeImport !== undefined) return importing(metadata, status?.phase);
  const name = spec.sandboxName ?? spec.podName ?? "";
  const retry = "The controllers call the cell again for 30 s, then the checkpoint fails and its source continues";
  if (isProblem(source)) {
    const { explanation, object } = source;
    return {
      ...explanation,
      cause: `Its source ${object} cannot be captured: ${explanation.cause}`,
      ...foundIn(source),
    };
  }
  const pending = whyPending(checkpoint);
  if (pending !== undefined) return notBegun(pending);
  const isLate = secondsSince(since, now) > 120;
  return {
    state: isLate ? "stuck" : "waiting",
    cause: `The sandbox ${name} is being captured`,
    reason: status?.phase,
    since,
    retry,
    action: isLate
      ? `Read the log of its source: kubectl logs ${shellWord(name)} -n ${metadata.namespace}`
      : nothingToDo,
  };
}

/** The controllers say why a capture waits. Only what the cluster cannot prepare needs an action. */
function notBegun({ message, reason, lastTransitionTime: since }: Condition): Found {
  const hasFailed = reason === ("PreparationFailed" satisfies PendingReason);
  const isPreparation = hasFailed || reason === ("Preparing" satisfies PendingReason);
  return {
    state: hasFailed ? "stuck" : "waiting",
    cause: message,
    reason,
    since,
    retry: hasFailed ? "The preparation is repeated every few minutes" : "The capture begins when that is over",
    action: hasFailed
      ? preparationRemedy
      : isPreparation
        ? "Follow the progress with: ramet local status"
        : nothingToDo,
  };
}

function importing({ name, creationTimestamp }: Checkpoint["metadata"], reason: string | undefined): Found {
  return {
    state: "waiting",
    cause: "Its volumes are being imported: it waits until their drivers report that the data can be restored",
    reason,
    since: creationTimestamp,
    retry: "It fails if a driver does not report a snapshot within a minute, or that it can be restored within 6 hours",
    action: `Find its VolumeSnapshots, and ask for their states: kubectl get volumesnapshots | grep ramet-${name}`,
  };
}

/** Whether to delete checkpoints is a remedy: not where another disk is full, or the number of checkpoints is limited. */
export function isFreedByDeletion({ reason, action }: Explanation): boolean {
  if (reason === ("QuotaExceeded" satisfies ErrorCode)) return action.includes(raisingOf("storeBytes"));
  const isOfStore = [spaceHint, bucketSpaceHint].some((hint) => action.includes(hint)) && !action.includes(scratchHint);
  return reason === ("StoreFull" satisfies ErrorCode) && isOfStore;
}

interface Around {
  snapshots?: readonly NamedSnapshot[] | undefined;
  /** Undefined: unknown, so that each of the data can be in use. */
  sandboxes: readonly Sandbox[] | undefined;
}

/** Names what holds the data of the namespace, and how the largest that no sandbox uses is deleted. */
export function withStorage(explanation: Explanation, storage: Storage, around: Around): Explanation {
  const all = storage.holders(around.snapshots ?? []).map((holder): DataHolder => {
    const use = useOf(holder, storage, around);
    const isUsed = use !== undefined || around.sandboxes === undefined;
    return { ...holder, ...(isUsed ? defined({ use }) : { remove: removalOf(holder) }) };
  });
  if (all.length === 0) return explanation;
  const largest = all.find(({ remove, uniqueBytes }) => remove !== undefined && uniqueBytes > 0);
  const which = largest === all[0] ? "The largest" : "The largest that no sandbox uses";
  const frees = largest && `. ${which} frees ${size(largest.uniqueBytes)}: ${largest.remove ?? ""}`;
  return {
    ...explanation,
    action: `${explanation.action}${frees ?? ""}`,
    storage: { usedBytes: storage.usedWith(around.sandboxes ?? []), holders: all.slice(0, mostHolders) },
  };
}

/** A user decides about a paused sandbox, and about what sandboxes were cloned from, which they may need again. */
function useOf({ kind, name }: Holder, storage: Storage, { snapshots, sandboxes = [] }: Around): string | undefined {
  if (kind === "sandbox") return sandboxes.find(({ metadata }) => metadata.name === name)?.status?.phase ?? "Paused";
  const uid = snapshots?.find(({ metadata }) => metadata.name === name)?.metadata.uid ?? "";
  const held =
    kind === "snapshot"
      ? storage.ofSnapshot(uid)
      : storage.checkpoints.filter(({ metadata }) => metadata.name === name);
  const ids = new Set(held.flatMap(({ metadata, status }) => [metadata.name, status?.checkpointId]));
  const user = sandboxes.find((one) =>
    [...originReferences(one), ...(one.status?.ramet?.layers ?? [])].some(
      (text) => ids.has(text) || (kind === "snapshot" && text.split("@")[0] === name),
    ),
  );
  return user && `cloned by sandbox/${user.metadata.name}`;
}

function removalOf({ kind, namespace, name, retained }: Holder): string {
  const command = `ramet ${kind} rm ${shellWord(name)} -n ${namespace}`;
  const versions = retained?.map(shellWord).join(" ");
  return versions === undefined ? command : `${command} && ramet checkpoint rm ${versions} -n ${namespace}`;
}

const mostHolders = 5;
