import { type CheckpointPart, type RametCheckpointStatus, volumeParts } from "../api/kinds/checkpoint.ts";
import { consistencies } from "../api/kinds/volume-import.ts";
import { Contents } from "../api/schema/metadata.ts";
import { defined } from "../base/defined.ts";
import type { CaptureDetails } from "./backend.ts";

/** The part of `status.ramet` of a Checkpoint that stays once all parts are durable. */
export type CheckpointRecord = Omit<RametCheckpointStatus, "parts"> & { parts: CheckpointPart[] };

/** Describes a checkpoint by its parts. The fields beside `parts` are a summary of them, for people. */
export function checkpointRecord(parts: CheckpointPart[], details: CaptureDetails): CheckpointRecord {
  const main = parts.find(({ contents }) => contents.includes("filesystem")) ?? parts[0];
  const readyTimes = parts.flatMap(({ readyAt }) => readyAt ?? []).sort();
  const readyAt = readyTimes.length === parts.length ? readyTimes.at(-1) : undefined;
  const { addedBytes, templateDigest, template, image, imageDigest, pausedMilliseconds, phases } = details;
  return {
    parts,
    // The size of a volume is known only as that of its claim.
    sizeBytes: parts.reduce((sum, part) => sum + (part.volume === undefined ? part.sizeBytes : 0), 0),
    ...(main && { ...summary(main), consistency: weakest(parts) }),
    ...defined({ addedBytes, readyAt, pausedMilliseconds, templateDigest, template, image, imageDigest }),
    ...groupConsistency(parts),
    ...notes(details),
    ...defined({ phases }),
  };
}

/** A checkpoint is as consistent as its weakest part. */
function weakest(parts: readonly CheckpointPart[]): CheckpointPart["consistency"] {
  return consistencies.find((one) => parts.some(({ consistency }) => consistency === one)) ?? "crash";
}

function notes({ consistencyNote, groupNote }: CaptureDetails): CaptureDetails {
  return defined({ consistencyNote, groupNote });
}

/** Whether all volumes were captured by one request. */
function groupConsistency(parts: readonly CheckpointPart[]): Pick<RametCheckpointStatus, "groupConsistency"> {
  const groups = volumeParts(parts).map(({ volume }) => volume?.groupSnapshot);
  if (groups.length < 2) return {};
  const [first] = groups;
  const isGroup = first !== undefined && groups.every((one) => one === first);
  return { groupConsistency: isGroup ? "group" : "sequential" };
}

function summary(part: CheckpointPart): Omit<RametCheckpointStatus, "parts"> {
  const { backend, handle, contents, cutAt, consistency } = part;
  const needs = part.needs && summarizedNeeds(part.needs);
  const own = Contents.safeParse(contents);
  return {
    backend,
    ...(own.success && { contents: own.data }),
    ...(backend === "cell" && { manifestDigest: handle }),
    cutAt,
    consistency,
    ...defined({ engine: needs?.engineId, needs }),
  };
}

/** The features are a long list, which the part has anyway. */
function summarizedNeeds({ cpuFeatures: _, ...needs }: NonNullable<CheckpointPart["needs"]>) {
  return needs;
}

/** The engine that a checkpoint's memory needs. Undefined: it has no memory. */
export function engineOfParts(parts: readonly CheckpointPart[]): string | undefined {
  return memoryPart(parts)?.needs?.engineId;
}

export function memoryPart(parts: readonly CheckpointPart[]): CheckpointPart | undefined {
  return parts.find(({ contents }) => contents.includes("memory"));
}

/** The parts of a recorded checkpoint. Undefined: there is no record of any data. */
export function partsOf(record: RametCheckpointStatus | undefined): CheckpointPart[] | undefined {
  return record?.parts?.length ? record.parts : undefined;
}
