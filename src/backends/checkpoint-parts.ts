import type { CheckpointPart } from "../api/kinds/checkpoint.ts";
import type { Contents } from "../api/schema/metadata.ts";
import { RametError } from "../base/errors.ts";
import type { Phases } from "../base/phases.ts";
import type { Capture, CaptureRequest, CheckpointName, CloneRequest } from "./backend.ts";
import type { Backends } from "./backends.ts";
import { checkpointRecord, type CheckpointRecord } from "./checkpoint-record.ts";
import type { SandboxRef, Started } from "./runtime.ts";

/**
 * Captures a sandbox part by part. Resolves when all parts are durable. A repeated call finds the parts that the first one
 * captured.
 * @throws RametError as {@link Backends.forContents} and `Backend.capture` do
 */
export async function captureParts(
  backends: Backends,
  request: Omit<CaptureRequest, "contents"> & { contents: Contents },
): Promise<CheckpointRecord> {
  const captures: Capture[] = [];
  for (const { backend, contents } of await backends.forContents(request.contents, request.source)) {
    const capture = await backend.capture({ ...request, contents });
    captures.push(capture.isDurable ? capture : await backend.whenReady(request.name));
  }
  return recordOf(captures);
}

/**
 * Finds the parts of a checkpoint whose sandbox no longer exists. Volumes are captured before files, so where a part with
 * files exists, all others do.
 * @throws RametError `CheckpointLost` if no part with files was captured
 */
export async function findParts(backends: Backends, name: CheckpointName): Promise<CheckpointRecord> {
  const captures: Capture[] = [];
  for (const backend of backends.all()) {
    const capture = await backend.whenReady(name).catch((thrown: unknown) => {
      const error = RametError.from(thrown);
      if (error.code !== "CheckpointLost") throw error;
      return error;
    });
    if (!(capture instanceof RametError)) captures.push(capture);
  }
  const record = recordOf(captures);
  if (record.parts.some(({ contents }) => contents.includes("filesystem"))) return record;
  throw new RametError(
    "CheckpointLost",
    `cannot use checkpoint ${name.namespace}/${name.checkpointId}: no data of it exists`,
    {
      hint: "Delete the Checkpoint, and create another one",
    },
  );
}

function recordOf(captures: readonly Capture[]): CheckpointRecord {
  const parts = captures.flatMap((capture) => capture.parts);
  return checkpointRecord(parts, Object.assign({}, ...captures.map(({ details }) => details)) as object);
}

/** What is restored: a checkpoint with its parts, which its record lists. */
export interface RestoreSource {
  name: CheckpointName;
  /** Identifies its data, if that is the data of another checkpoint. @default name */
  data?: CheckpointName;
  parts: CheckpointPart[];
}

type PartsRequest = Pick<CloneRequest, "target" | "environment"> & { source: RestoreSource };

/**
 * Starts a clone from the parts of a checkpoint.
 * @throws RametError `BackendMissing` before anything is changed; as `Backend.clone`
 */
export async function cloneParts(backends: Backends, { source, ...request }: PartsRequest): Promise<Started> {
  const name = source.data ?? source.name;
  const started: Started[] = [];
  for (const { backend, part } of backends.forParts(source.parts)) {
    started.push(await backend.clone({ ...request, name, part }));
  }
  return together(started);
}

/**
 * Replaces what runs in a sandbox by the parts of a checkpoint.
 * @throws RametError `BackendMissing` before anything is changed; as `Backend.restoreInPlace`
 */
export async function restorePartsInPlace(
  backends: Backends,
  { source, ...rest }: PartsRequest & { request: string },
): Promise<Started> {
  const name = source.data ?? source.name;
  const started: Started[] = [];
  for (const { backend, part } of backends.forParts(source.parts)) {
    started.push(await backend.restoreInPlace({ ...rest, name, part }));
  }
  return together(started);
}

function together(all: readonly Started[]): Started {
  const phases = Object.assign({}, ...all.map((one) => one.phases)) as Phases;
  return Object.assign({}, ...all, { phases }) as Started;
}

/** Resolves when all memory of a running clone is loaded, whichever backend restored it. */
export async function untilPartsLoaded(backends: Backends, target: SandboxRef): Promise<void> {
  await Promise.all(backends.all().map((backend) => backend.untilLoaded(target)));
}

/**
 * Removes all data of a checkpoint: its recorded parts, and what a failed capture left in any backend.
 * @throws RametError `BackendMissing` for a recorded part whose backend is not installed; nothing is removed then
 */
export async function removeParts(
  backends: Backends,
  name: CheckpointName,
  parts: readonly CheckpointPart[] = [],
): Promise<void> {
  for (const { backend } of parts) backends.get(backend);
  await Promise.all(backends.all().map((backend) => backend.remove(name)));
}
