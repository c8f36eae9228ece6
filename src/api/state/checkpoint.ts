import { hash } from "node:crypto";
import type { Checkpoint, CheckpointPart } from "../kinds/checkpoint.ts";
import { annotations, labels } from "../names/labels.ts";
import type { Condition } from "../schema/metadata.ts";

/**
 * What the status of a checkpoint means:
 * - `unfinished`: it is being captured, or waits for its turn. One that is deleted meanwhile completes first.
 * - `succeeded`: it can be cloned.
 * - `failed`: it has no data.
 * - `deleting`: its capture has ended, and its data is being removed. That takes long if the store does not respond.
 */
export type CheckpointState = "unfinished" | "succeeded" | "failed" | "deleting";

/** The fields of a checkpoint that its state depends on. */
export interface CheckpointStatusOf {
  metadata: { deletionTimestamp?: string | undefined };
  status?: { phase?: string | undefined } | undefined;
}

export function checkpointState({ metadata, status }: CheckpointStatusOf): CheckpointState {
  if (status?.phase === "Failed") return "failed";
  if (status?.phase === "Terminating") return "deleting";
  if (status?.phase !== "Succeeded") return "unfinished";
  return metadata.deletionTimestamp === undefined ? "succeeded" : "deleting";
}

/** Whether the sandbox of a checkpoint is still occupied by it. */
export function isUnfinished(checkpoint: CheckpointStatusOf): boolean {
  return checkpointState(checkpoint) === "unfinished";
}

/** Whether clones can be created of it. */
export function isCloneable(checkpoint: CheckpointStatusOf | undefined): boolean {
  return checkpoint !== undefined && checkpointState(checkpoint) === "succeeded";
}

/** When a checkpoint is deleted by its annotation. Users can write that, so one that is no time counts as absent. */
export function expiryOf({ metadata }: Pick<Checkpoint, "metadata">): Date | undefined {
  const time = new Date(metadata.annotations?.[annotations.expiresAt] ?? "");
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** How long its capture took, in words, as far as it was measured. */
export function captureTimes({ status }: Pick<Checkpoint, "status">): string[] {
  const { pausedMilliseconds: paused, cutAt, readyAt } = status?.ramet ?? {};
  const stored = cutAt === undefined || readyAt === undefined ? undefined : Date.parse(readyAt) - Date.parse(cutAt);
  return [
    ...(paused === undefined ? [] : [`source paused for ${inWords(paused)}`]),
    ...(stored === undefined ? [] : [`data stored in ${inWords(stored)}`]),
  ];
}

/** What a quarter of the latest captures did not reach, in bytes a second. Undefined: none was large enough to tell. */
export function storeSpeed(checkpoints: readonly Pick<Checkpoint, "status">[]): number | undefined {
  const speeds = checkpoints
    .flatMap(({ status }) => {
      const { cutAt, readyAt, sizeBytes = 0, addedBytes = sizeBytes } = status?.ramet ?? {};
      const at = Date.parse(cutAt ?? "");
      const seconds = (Date.parse(readyAt ?? "") - at) / 1000;
      return addedBytes >= leastBytes && seconds > 0 ? [{ at, speed: addedBytes / seconds }] : [];
    })
    .sort((a, b) => b.at - a.at)
    .slice(0, mostCaptures)
    .map(({ speed }) => speed)
    .sort((a, b) => a - b);
  return speeds[Math.floor(speeds.length / 4)];
}

/** A smaller capture mostly takes the time that does not depend on the size. */
const leastBytes = 16 * 1024 ** 2;
const mostCaptures = 20;

function inWords(milliseconds: number): string {
  return milliseconds < 1_000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1_000).toFixed(1)} s`;
}

/** Whether it has failed and is kept, for its error. */
export function hasFailed(checkpoint: CheckpointStatusOf): boolean {
  return checkpointState(checkpoint) === "failed" && checkpoint.metadata.deletionTimestamp === undefined;
}

export function isPauseCheckpoint({ metadata }: Pick<Checkpoint, "metadata">): boolean {
  return metadata.labels?.[labels.purpose] === "pause";
}

/** Whether the controllers take it while its sandbox runs, to continue from there if its Pod is lost. */
export function isAutomatic({ metadata }: Pick<Checkpoint, "metadata">): boolean {
  return metadata.labels?.[labels.purpose] === "automatic";
}

/** Why a capture has not begun: others come first or its sandbox is not ready; or its cluster prepares what captures volumes. */
export type PendingReason = "Waiting" | "Preparing" | "PreparationFailed";

/** The condition that says why its capture has not begun, with a {@link PendingReason}. */
export function whyPending({ status }: Pick<Checkpoint, "status">): Condition | undefined {
  if (status?.phase !== "Pending") return undefined;
  return status.conditions?.find((condition) => condition.type === "Ready" && condition.status === "False");
}

/** Whether it waits for its cluster, which is no part of the time that its user has set for it. */
export function isPreparing(checkpoint: Pick<Checkpoint, "status">): boolean {
  return whyPending(checkpoint)?.reason === ("Preparing" satisfies PendingReason);
}

/** How far an unfinished one is, after its name. */
export function captureProgress(checkpoint: Pick<Checkpoint, "status">): string {
  const why = isPreparing(checkpoint) ? whyPending(checkpoint)?.message : undefined;
  return why === undefined ? "is being taken" : `has not begun. ${why}`;
}

/** Whether its capture has begun. It then runs to its end, even if the Checkpoint is deleted. */
export function hasBegun({ metadata, status }: Pick<Checkpoint, "metadata" | "status">): boolean {
  return metadata.annotations?.[annotations.podUid] !== undefined || status?.phase === "Creating";
}

/** Whether it is being captured or is still going to be. One that was deleted before its capture began never is. */
export function isOrWillBeCaptured(checkpoint: Checkpoint): boolean {
  return isUnfinished(checkpoint) && (checkpoint.metadata.deletionTimestamp === undefined || hasBegun(checkpoint));
}

/** Whether it is captured after others instead of failing. */
export function waitsTurn({ metadata }: Pick<Checkpoint, "metadata">): boolean {
  return metadata.annotations?.[annotations.waitsTurn] === "true";
}

/** Whether a pause of its sandbox waits for it. A waiting one is captured after the pause, or there would be no limit. */
export function delaysPause(checkpoint: Checkpoint): boolean {
  return isOrWillBeCaptured(checkpoint) && (hasBegun(checkpoint) || !waitsTurn(checkpoint));
}

/**
 * The id of a Checkpoint's data: its name, truncated if necessary, and a part of its UID's digest. Deterministic, so a repeat
 * after a crash finds the data of the first attempt. A later Checkpoint of the same name has another id.
 */
export function checkpointIdOf({ name, uid }: { name: string; uid: string }): string {
  const readable = name
    .replace(/[^a-z0-9-]/g, "-")
    .slice(0, 50)
    .replace(/^-+|-+$/g, "");
  const digest = hash("sha256", uid).slice(0, 12);
  return readable === "" ? `c-${digest}` : `${readable}-${digest}`;
}

/**
 * The id under which its data is stored, if it has one yet: its own, or that of the checkpoint whose data it shares. Its users can change
 * the label: {@link storedHandle} tells what a checkpoint really has.
 */
export function storedIdOf({ metadata, status }: Pick<Checkpoint, "metadata" | "status">): string | undefined {
  return metadata.labels?.[labels.dataOf] ?? status?.checkpointId;
}

/** Identifies its memory and files, as only controllers write: checkpoints that share data have it in common. */
export function storedHandle({ status }: Pick<Checkpoint, "status">): string | undefined {
  return status?.ramet?.parts?.find(({ volume }) => volume === undefined)?.handle;
}

/** Says what the layers of captured parts lack, which was left out without an error. */
export function leftOutNotes(parts: readonly CheckpointPart[] = []): string[] {
  return parts.flatMap(({ leftOut }) => {
    if (leftOut === undefined) return [];
    const { count, names } = leftOut;
    const named = `${names.join(", ")}${count > names.length ? ", …" : ""}`;
    return `The layer lacks ${count} device node${count > 1 ? "s" : ""}, which no layer brings to a node: ${named}. Create them in a start step`;
  });
}

/** The ids of the layers that a restore of a checkpoint needs. */
export function layerIdsOf({ status }: Pick<Checkpoint, "status">): string[] {
  const ids = (status?.ramet?.parts ?? []).flatMap(({ layers = [] }) => layers.map((layer) => layer.checkpointId));
  return [...new Set(ids)];
}

/**
 * Finds the checkpoint of the same sandbox that is captured before another one. A capture that has begun comes first, then a pause,
 * which a queue must not delay, then the older Checkpoint; the UID decides between two of the same second.
 * @param all those of the sandbox
 */
export function earlierOf(checkpoint: Checkpoint, all: readonly Checkpoint[]): Checkpoint | undefined {
  const isOther = ({ metadata }: Checkpoint): boolean => metadata.uid !== checkpoint.metadata.uid;
  return all.find((other) => isOther(other) && isOrWillBeCaptured(other) && rank(other) < rank(checkpoint));
}

function rank(checkpoint: Checkpoint): string {
  const { creationTimestamp, uid } = checkpoint.metadata;
  const group = hasBegun(checkpoint) ? 0 : isPauseCheckpoint(checkpoint) ? 1 : 2;
  return `${group} ${creationTimestamp} ${uid}`;
}
