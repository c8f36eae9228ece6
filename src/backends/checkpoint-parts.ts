import type { CheckpointPart } from "../api/kinds/checkpoint.ts";
import { RametError, unlessCode } from "../base/errors.ts";
import type { ClaimSpec } from "../kube/volumes/volumes.ts";
import type { Phases } from "../base/clock.ts";
import type { Backend, Capture, CheckpointName, CloneRequest, RestoreInPlaceRequest } from "./backend.ts";
import { type Backends, capturesVolumes } from "./backends.ts";
import { checkpointRecord, type CheckpointRecord } from "./checkpoint-record.ts";
import type { SandboxRef, Started } from "./runtime.ts";

/**
 * Finds the parts of a checkpoint whose sandbox no longer exists. Volumes are captured before files, so where a part with
 * files exists, all others do.
 * @param found `isAdopted`: no status has its parts yet. @see CheckpointStore.manifest
 * @throws RametError `CheckpointLost` if no part with files was captured
 */
export async function findParts(
  backends: Backends,
  name: CheckpointName,
  found: { isAdopted?: boolean } = {},
): Promise<CheckpointRecord> {
  const captures: Capture[] = [];
  for (const backend of backends.all()) {
    const capture = await backend.whenReady(name, found).catch(unlessCode("CheckpointLost"));
    if (capture !== undefined) captures.push(capture);
  }
  const record = recordOf(captures);
  if (startsSandbox(record.parts)) return record;
  const why = `cannot use checkpoint ${name.namespace}/${name.checkpointId}: no data of it exists`;
  throw new RametError("CheckpointLost", why, { hint: "Delete the Checkpoint, and create another one" });
}

export function recordOf(captures: readonly Capture[]): CheckpointRecord {
  const parts = captures.flatMap((capture) => capture.parts);
  return checkpointRecord(parts, Object.assign({}, ...captures.map(({ details }) => details)) as object);
}

/** The source of a restore: a checkpoint with its parts, which its record lists. */
export interface RestoreSource {
  name: CheckpointName;
  /** Identifies its data, if that is the data of another checkpoint. @default name */
  data?: CheckpointName;
  parts: CheckpointPart[];
}

/**
 * The spec of a clone's new claim that gets the data of a volume.
 * @throws RametError `BackendMissing`; as `Backend.fillClaim`
 */
export async function fillClaimOf(
  backends: Backends,
  { source, part, spec }: { source: RestoreSource; part: CheckpointPart; spec: ClaimSpec },
): Promise<ClaimSpec> {
  const filled = await backends.get(part.backend).fillClaim?.({ name: source.name, part, spec });
  if (filled !== undefined) return filled;
  throw new RametError("BackendMissing", `The backend ${part.backend} fills no claims`);
}

/** Whether the parts start a sandbox. Volumes alone do not: their clone boots from its image. */
export function startsSandbox(parts: readonly CheckpointPart[]): boolean {
  return parts.some(({ contents }) => contents.includes("filesystem"));
}

type PartsRequest = Pick<CloneRequest, "target" | "environment" | "signal"> & { source: RestoreSource };

/**
 * Starts a clone from the parts of a checkpoint.
 * @throws RametError `BackendMissing` before anything is changed; as `Backend.clone`
 */
export async function cloneParts(backends: Backends, { source, ...request }: PartsRequest): Promise<Started> {
  const name = source.data ?? source.name;
  return eachPart(backends, source, (backend, part) => backend.clone({ ...request, name, part }));
}

/**
 * Replaces what runs in a sandbox by the parts of a checkpoint.
 * @throws RametError `BackendMissing` before anything is changed; as `Backend.restoreInPlace`
 */
export async function restorePartsInPlace(
  backends: Backends,
  { source, ...rest }: PartsRequest & Pick<RestoreInPlaceRequest, "request" | "reportsPrograms">,
): Promise<Started> {
  const name = source.data ?? source.name;
  return eachPart(backends, source, (backend, part) => backend.restoreInPlace({ ...rest, name, part }));
}

async function eachPart(
  backends: Backends,
  { parts }: RestoreSource,
  start: (backend: Backend, part: CheckpointPart) => Promise<Started>,
): Promise<Started> {
  const all: Started[] = [];
  for (const { backend, part } of backends.forParts(parts)) all.push(await start(backend, part));
  const phases = Object.assign({}, ...all.map((one) => one.phases)) as Phases;
  return Object.assign({}, ...all, { phases }) as Started;
}

/** Resolves when all memory of a running clone is loaded, whichever backend restored it. */
export async function untilPartsLoaded(backends: Backends, target: SandboxRef, signal?: AbortSignal): Promise<void> {
  await Promise.all(backends.all().map((backend) => backend.untilLoaded(target, signal)));
}

export interface PartsRemoval {
  /** Under which names the memory and the files are stored; empty: another checkpoint needs them. */
  data: readonly CheckpointName[];
  /** For which checkpoints the volumes were captured. */
  volumes: readonly CheckpointName[];
  /** The recorded parts. @default unknown, as after a failed capture: every backend is asked */
  parts?: readonly CheckpointPart[] | undefined;
}

/**
 * Removes all data of a checkpoint: its recorded parts, or what a failed capture left in any backend.
 * @throws RametError `BackendMissing` for a recorded part whose backend is not installed; nothing is removed then
 */
export async function removeParts(backends: Backends, { data, volumes, parts = [] }: PartsRemoval): Promise<void> {
  const recorded = [...new Set(parts.map(({ backend }) => backends.get(backend)))];
  const removals = (recorded.length > 0 ? recorded : backends.all()).flatMap((backend) =>
    (capturesVolumes(backend) ? volumes : data).map((name) => backend.remove(name)),
  );
  await Promise.all(removals);
}
