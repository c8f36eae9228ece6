import { hash } from "node:crypto";
import type { Checkpoint, Consistency } from "../../api/kinds/checkpoint.ts";
import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { checkpointIdOf, isCloneable } from "../../api/state/checkpoint.ts";
import { defined } from "../../base/defined.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import { describeReport } from "../../kube/conditions.ts";
import { untilCaptured } from "../../operations/capture.ts";
import { objectOf, observed, type Settled, type Wait } from "../../operations/objects.ts";
import { requestRollback, untilRolledBack } from "../../operations/roll-back.ts";
import { awaitInCache, unlessTimeout, untilKnown, writtenMilliseconds } from "./cache-lag.ts";
import { unknown } from "./find-sandbox.ts";
import { verifiedState } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";
import { type CreateSnapshot, snapshotOf } from "./snapshots.ts";
import { currentSource } from "./source.ts";

export interface StartCheckpoint extends Pick<CreateSnapshot, "owner" | "title" | "description" | "expiresAt"> {
  /** @default those of the sandbox */
  contents?: CreateSnapshot["contents"] | undefined;
  /** Unique among the checkpoints of the sandbox. @default none */
  name?: string | undefined;
  /** The volumes to capture; true: all. @default those of the sandbox's contents */
  volumes?: boolean | string[] | undefined;
  consistency?: Consistency | undefined;
  /** A UUID. A repeat of the same request returns the checkpoint of the first attempt. */
  requestId: string;
  signal: AbortSignal;
}

/**
 * Requests a checkpoint of a running or paused sandbox, and does not wait for the capture.
 * @throws RametError `NotFound` if the sandbox has ended; `Conflict` if it is being deleted or paused; `AlreadyExists` if the sandbox has
 *   a checkpoint of that name
 */
export async function startCheckpoint(
  parts: ServiceParts,
  sandbox: Sandbox,
  start: StartCheckpoint,
): Promise<Checkpoint> {
  const { name, contents, volumes = false, consistency, requestId, signal } = start;
  const { owner, title, description, expiresAt } = start;
  const at = sandbox.metadata;
  const state = await verifiedState(parts, sandbox, signal, ["running", "starting", "snapshotting", "paused"]);
  if (state === "ended") throw unknown(at.name);
  if (state === "pausing" || state === "killing")
    throw new RametError("Conflict", `The sandbox ${at.name} is ${state}, so it cannot be captured`);
  const manifest = snapshotOf(sandbox, { owner, ...defined({ contents, title, description, expiresAt }) });
  const { generateName: _, ...metadata } = manifest.metadata;
  // The name of the object makes that of the client unique, also among requests at the same time.
  const digits = hash("sha256", JSON.stringify([at.uid, name ?? null, name === undefined ? requestId : null]));
  const objectName = `${at.name.slice(0, 36)}-${digits.slice(0, 12)}`;
  const noted = defined({ [annotations.lock]: requestId, [annotations.clientName]: name });
  const created = await parts.objects.checkpoints
    .create(
      {
        ...manifest,
        metadata: { ...metadata, name: objectName, annotations: { ...metadata.annotations, ...noted } },
        spec: {
          ...manifest.spec,
          ...(volumes !== false && { volumes: volumes === true ? [allVolumes] : volumes }),
          ...defined({ consistency }),
        },
      },
      signal,
    )
    .catch(unlessCode("AlreadyExists"));
  // It can be used before a list has it.
  if (created !== undefined) return untilKnown(parts.checkpoints, created, signal, writtenMilliseconds);
  return startedBefore(parts, { namespace: at.namespace, name: objectName }, start);
}

/** The checkpoint of an earlier attempt of the request. @throws RametError `AlreadyExists` if another request has created it */
async function startedBefore(
  { informers, checkpoints }: ServiceParts,
  at: { namespace: string; name: string },
  { name = "", requestId, signal }: StartCheckpoint,
): Promise<Checkpoint> {
  const found = await informers.checkpoints.resource.find(at, { signal });
  if (found?.metadata.annotations?.[annotations.lock] === requestId)
    return untilKnown(checkpoints, found, signal, writtenMilliseconds);
  const named = `the name ${JSON.stringify(name)}`;
  if (found === undefined || found.metadata.deletionTimestamp !== undefined)
    throw new RametError("Conflict", `The checkpoint with ${named} is being deleted`, { retryable: true });
  throw new RametError(
    "AlreadyExists",
    `The sandbox has a checkpoint with ${named}: ${clientCheckpointId(found)}, of ${found.metadata.creationTimestamp}`,
    { hint: "Choose another name, or delete that checkpoint" },
  );
}

/** The id of a checkpoint, also before its capture has begun: it follows from the object. */
export function clientCheckpointId({ metadata, status }: Checkpoint): string {
  return status?.checkpointId ?? checkpointIdOf(metadata);
}

export function clientCheckpointName({ metadata }: Checkpoint): string | undefined {
  return metadata.annotations?.[annotations.clientName];
}

/** The checkpoints of a sandbox for its clients, newest first: those of pauses and of named snapshots belong to these. */
export function checkpointsOf({ known }: Pick<ServiceParts, "known">, { metadata }: Source): Checkpoint[] {
  return known
    .checkpointsIn(metadata.namespace)
    .filter((each) => isKept(each) && isOf(each, metadata))
    .toSorted((a, b) => orderOf(b).localeCompare(orderOf(a)));
}

/** A sandbox, or one that was deleted, of which only the UID is known. */
export interface Source {
  metadata: Pick<Sandbox["metadata"], "namespace" | "uid"> & Partial<Sandbox["metadata"]>;
}

/** Checkpoints of the same second are in the order of their captures, of which those to come are the last. */
function orderOf({ metadata, status }: Checkpoint): string {
  return `${metadata.creationTimestamp} ${status?.ramet?.cutAt ?? "9"}`;
}

/** Whether no pause, no named snapshot and no controller has requested it. */
export function isForClients({ metadata }: Checkpoint): boolean {
  const { [labels.purpose]: purpose, [labels.sourceOf]: version } = metadata.labels ?? {};
  return purpose === undefined && version === undefined;
}

function isKept(checkpoint: Checkpoint): boolean {
  return isForClients(checkpoint) && checkpoint.metadata.deletionTimestamp === undefined;
}

/** Those that no client has created name their sandbox only, and an earlier one may have had that name. */
function isOf({ metadata, spec }: Checkpoint, { uid, name, creationTimestamp }: Source["metadata"]): boolean {
  const source = metadata.labels?.[labels.sourceUid];
  if (source !== undefined || name === undefined) return source === uid;
  return (spec.sandboxName ?? spec.podName) === name && metadata.creationTimestamp >= (creationTimestamp ?? "");
}

export interface FindCheckpoint {
  namespace: string;
  /** Whose checkpoints are found by their names. @default names of the namespace, as far as they are unique */
  sandbox?: Source | undefined;
  /** Whether those of other sandboxes are found by their ids. @default true */
  others?: boolean;
}

/**
 * Finds a checkpoint of a namespace by its id, or by its name.
 * @throws RametError `NotFound`; `InvalidArgument` for a name of several
 */
export function findCheckpoint(parts: ServiceParts, from: FindCheckpoint, text: string): Promise<Checkpoint> {
  const { namespace, sandbox, others = true } = from;
  return awaitInCache(parts, () => {
    const all = parts.known.checkpointsIn(namespace).filter(isKept);
    const own = sandbox === undefined ? all : checkpointsOf(parts, sandbox);
    const isId = (each: Checkpoint) => clientCheckpointId(each) === text || checkpointIdOf(each.metadata) === text;
    const [found, another] = [
      ...(others ? all : own).filter(isId),
      ...own.filter((each) => clientCheckpointName(each) === text),
    ];
    const what = `The checkpoint ${JSON.stringify(text.slice(0, 100))}`;
    if (found === undefined)
      throw new RametError("NotFound", `${what} does not exist`, { hint: "List the checkpoints of the sandbox" });
    if (another === undefined || isId(found)) return found;
    const ids = [found, another].map(clientCheckpointId).join(" and ");
    throw new RametError("InvalidArgument", `${what} is not the only one of that name: ${ids}`, {
      hint: "Name the sandbox, or use the id",
    });
  });
}

/**
 * Waits until a checkpoint has succeeded or failed.
 * @param report is called with each new state
 * @throws RametError `Timeout` or `Canceled`
 */
export function awaitCheckpoint(
  { objects }: ServiceParts,
  checkpoint: Checkpoint,
  { report = () => undefined, ...wait }: Wait & { report?: (checkpoint: Checkpoint) => void },
): Promise<Settled<Checkpoint>> {
  return untilCaptured({ checkpoints: observed(objects.checkpoints, report) }, checkpoint, wait);
}

/** Deletes a checkpoint, and waits for a moment until its name is free. Clones are not affected. */
export async function deleteCheckpoint(
  parts: ServiceParts,
  checkpoint: Checkpoint,
  signal: AbortSignal,
): Promise<void> {
  await parts.objects.checkpoints.remove(checkpoint);
  const { uid, name } = checkpoint.metadata;
  const wait = { what: `Deleting the checkpoint ${name}`, timeoutMilliseconds: deleteMilliseconds, signal };
  await parts.checkpoints.until(uid, (current) => current === undefined || undefined, wait).catch(unlessTimeout);
}

/** A capture in progress ends first, which can take longer. */
const deleteMilliseconds = 5_000;

/** @throws RametError `CheckpointNotReady` */
export function checkRestorable(checkpoint: Checkpoint): void {
  if (isCloneable(checkpoint)) return;
  const id = clientCheckpointId(checkpoint);
  const isFailed = checkpoint.status?.phase === "Failed";
  const why = isFailed ? `has failed: ${describeReport(checkpoint) ?? "it gave no reason"}` : "is being taken";
  throw new RametError("CheckpointNotReady", `The checkpoint ${id} ${why}`, {
    retryable: !isFailed,
    hint: isFailed ? "Create another checkpoint" : "Wait for it first",
  });
}

export interface RestoreInPlace extends Wait {
  /** A UUID. A repeat of the same request is the same restore. @default a new one */
  requestId?: string | undefined;
}

/**
 * Restores a checkpoint or a named snapshot in a sandbox, in place, and waits until the sandbox has its state. The status of the
 * returned sandbox says which programs were ended, and which ones run now.
 * @param to as the client wrote it
 * @throws RametError `NotFound`; `InvalidArgument` for a set or template; `Timeout`; the error of the restore, after which the sandbox
 *   is unchanged unless the error says otherwise
 */
export async function restoreInPlace(
  parts: ServiceParts,
  sandbox: Sandbox,
  to: string,
  { requestId, ...wait }: RestoreInPlace,
): Promise<Sandbox> {
  const { name, namespace } = sandbox.metadata;
  const source = await currentSource({ ...parts, aliases: new Map() }, namespace, to, wait.signal);
  if (source.kind !== "checkpoint") {
    const what = `Cannot restore the sandbox ${name}: ${to} is a ${source.kind}, which has no captured state`;
    throw new RametError("InvalidArgument", what, { hint: "Name a checkpoint or a named snapshot" });
  }
  const request = { to: source.reference, ...defined({ requestId }) };
  const requested = await requestRollback(parts.objects, sandbox, request, wait.signal);
  return objectOf(await untilRolledBack(parts.objects, requested, wait));
}
