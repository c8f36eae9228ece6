import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import { hasVolumes, type Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFrom, restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { VolumeSnapshotRequest } from "../../api/kinds/checkpoint-spec.ts";
import type { Clock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import { failureOf } from "../../kube/conditions.ts";
import { snapshotClassesIn, snapshotResources } from "../../kube/volumes/snapshots.ts";
import { untilCapturing } from "../../operations/capture.ts";
import { createClaimed } from "../../operations/claim/claim-sandbox.ts";
import { untilKnown } from "./cache-lag.ts";
import { servingStates, verifiedState } from "./lifecycle.ts";
import {
  checkNameIsFree,
  claimOf,
  createNamed,
  type CreateNamed,
  isOfRequest,
  makeSandbox,
  type CreateSandbox,
  type NewSandbox,
} from "./create-sandbox.ts";
import type { ServiceParts } from "./parts.ts";
import { type CreateSnapshot, snapshotOf } from "./snapshots.ts";
import { type CloneResult, fork, inherited } from "../../operations/fork.ts";
import { type Followed, objectOf } from "../../operations/objects.ts";
import { hasWarmSet } from "./source.ts";

export interface CloneSandbox extends Omit<CreateNamed, "namespace" | "storage"> {
  /** The VolumeSnapshotClass of the snapshots of its volumes. @default that of the cluster */
  snapshotClass?: string | undefined;
  /** How long to wait until the capture starts. */
  timeoutMilliseconds: number;
}

/** A clone that is being made, and the name of the checkpoint that it is made from. */
export interface StartedClone {
  clone: Sandbox;
  checkpoint: string;
}

/**
 * Starts a clone of a running or paused sandbox: creates a checkpoint, and a sandbox that is restored from it as soon as the capture
 * has ended. The controllers do the rest, also if this process ends. The checkpoint lives until somebody deletes it.
 * @throws RametError `InvalidArgument` if the source does not run and is not paused; `AlreadyExists` if the name is taken;
 *   `NotSupported` if its volumes cannot be captured; `Timeout` if the capture does not start; the error of the capture if it has failed
 *   by then
 */
export async function startClone(parts: ServiceParts, source: Sandbox, create: CloneSandbox): Promise<StartedClone> {
  const { namespace, name: sourceName } = source.metadata;
  const repeated = await checkNameIsFree(parts, { ...create, namespace });
  if (repeated !== undefined) return startedBefore(parts, await untilKnown(parts.sandboxes, repeated, create.signal));
  const checkpoint = await startCapture(parts, source, create);
  const reference = checkpoint.status?.checkpointId ?? "";
  const own = { ...create.annotations, [annotations.clonedFrom]: sourceName };
  const request = { ...create, namespace, annotations: { ...inherited(source, inheritedByClones), ...own } };
  try {
    const clone = await createNamed(parts, request, { kind: "checkpoint", reference, checkpoint });
    return { clone, checkpoint: checkpoint.metadata.name };
  } catch (error) {
    // After a lost answer the clone may exist, and needs it.
    if (!RametError.from(error).retryable) await parts.objects.checkpoints.remove(checkpoint).catch(() => undefined);
    throw error;
  }
}

/** Creates a checkpoint and waits until it has an id, which it gets when the captures before it have ended. */
async function startCapture(parts: ServiceParts, source: Sandbox, create: CloneSandbox): Promise<Checkpoint> {
  const { owner, timeoutMilliseconds, signal } = create;
  const { checkpoints } = parts.objects;
  if (hasVolumes(source) && !(await parts.client.serves(snapshotResources.snapshots, signal))) {
    const what = `The volumes of the sandbox ${source.metadata.name} cannot be captured: the cluster has no VolumeSnapshots`;
    throw new RametError("NotSupported", what, {
      hint: "Ask an administrator to install the snapshot stack, for example with SnapshotStack",
    });
  }
  await checkSnapshotClass(parts, source, create);
  await checkCloneable(parts, source, signal);
  const contents = contentsOfClone(source);
  const manifest = snapshotOf(source, { owner, volumes: hasVolumes(source), ...defined({ contents }) });
  const created = await createCheckpoint(parts, manifest, { ...create, sandbox: source.metadata.name });
  try {
    const started = await untilCapturing(parts.objects, created, { timeoutMilliseconds, signal });
    if (started.status?.checkpointId !== undefined && started.status.phase !== "Failed") return started;
    throw failureOf(`The checkpoint ${started.metadata.name} failed`, started, "EngineFailed");
  } catch (error) {
    await checkpoints.remove(created).catch(() => undefined);
    throw error;
  }
}

/** Creates a checkpoint of the first free name. @throws RametError `Conflict` if many are taken */
export async function createCheckpoint(
  { objects, clock }: { objects: { checkpoints: Pick<Followed<Checkpoint>, "create"> }; clock: Clock },
  manifest: CheckpointManifest,
  { sandbox, snapshotClass, signal }: Pick<CloneSandbox, "snapshotClass" | "signal"> & { sandbox: string },
): Promise<Checkpoint> {
  const first = Math.floor(clock.now().getTime() / 1000);
  for (let seconds = first; seconds < first + mostNames; seconds += 1) {
    const name = `${sandbox.slice(0, 50)}-snap-${seconds}`;
    const request = JSON.stringify({ name, className: snapshotClass } satisfies VolumeSnapshotRequest);
    const own = { ...manifest.metadata.annotations, [annotations.volumeSnapshot]: request };
    const named = { ...manifest, metadata: { ...manifest.metadata, name, annotations: own } };
    const created = await objects.checkpoints.create(named, signal).catch(unlessCode("AlreadyExists"));
    if (created !== undefined) return created;
  }
  const what = `The sandbox ${sandbox} was not cloned: ${mostNames} names for its checkpoint are taken`;
  throw new RametError("Conflict", what, { hint: "Clone it again in a minute", retryable: true });
}

/** Each clone of the same second takes another name. */
const mostNames = 30;

/** @throws RametError `InvalidArgument`, before anything exists */
async function checkSnapshotClass(
  { client }: ServiceParts,
  source: Sandbox,
  { snapshotClass: name, signal }: CloneSandbox,
): Promise<void> {
  if (name === undefined) return;
  const what = `snapshotClass is ${JSON.stringify(name)}`;
  if (!hasVolumes(source))
    throw new RametError("InvalidArgument", `${what}, and the sandbox ${source.metadata.name} has no volumes`);
  if ((await snapshotClassesIn(client).find({ name }, { signal })) === undefined)
    throw new RametError("InvalidArgument", `${what}, and the cluster has no such VolumeSnapshotClass`);
}

/** The settings that a client has made in the source with its checkpointed files. */
const inheritedByClones = [
  annotations.clientTemplate,
  annotations.clientAgent,
  annotations.clientPorts,
  annotations.initRuntimeRequest,
  annotations.sealedInitRequest,
];

function startedBefore({ known }: ServiceParts, clone: Sandbox): StartedClone {
  const id = restoreFrom(clone) ?? "";
  const checkpoint = known.checkpointById(clone.metadata.namespace, id);
  return { clone, checkpoint: checkpoint?.metadata.name ?? id };
}

async function checkCloneable(parts: ServiceParts, source: Sandbox, signal: AbortSignal): Promise<void> {
  const cloneable = [...servingStates, "paused"] as const;
  const state = await verifiedState(parts, source, signal, cloneable);
  if (cloneable.includes(state)) return;
  const code = state === "pausing" || state === "killing" ? "Conflict" : "InvalidArgument";
  const { name } = source.metadata;
  throw new RametError(code, `The sandbox ${name} is ${state}, and only a running or stopped one is cloned`);
}

/** The contents that a clone gets of its source, besides volumes. Undefined: those that the pause of the source has kept. */
export function contentsOfClone({ spec }: Pick<Sandbox, "spec">): CreateSnapshot["contents"] {
  if (spec.paused === true) return undefined;
  const own = spec.persistentContents ?? [];
  return own.includes("filesystem") && !own.includes("memory") ? ["filesystem"] : ["memory", "filesystem"];
}

export interface ForkPaused extends Omit<NewSandbox, "namespace"> {
  requestId: string;
  /** The contents that a running source is captured with. Those of a paused one are what its pause has stored. */
  contents: NonNullable<CreateSnapshot["contents"]>;
  /** Whether the client can repeat the request, which then finds the clone. */
  isRepeatable: boolean;
  timeoutMilliseconds: number;
}

/**
 * Creates a clone of a running or paused sandbox that is paused: it has no Pod until it is resumed. It shares the data of the capture,
 * which is not kept.
 * @throws RametError `Conflict` or `InvalidArgument` if the source is in another state; the error of the capture; `Timeout`
 */
export async function forkPaused(parts: ServiceParts, source: Sandbox, create: ForkPaused): Promise<Sandbox> {
  const { owner, timeoutMilliseconds, signal } = create;
  const { namespace, name } = source.metadata;
  const earlier = parts.known.sandboxesIn(namespace).find((each) => isOfRequest(each, create.requestId));
  if (earlier !== undefined) return earlier;
  await checkCloneable(parts, source, signal);
  const isPaused = source.spec.paused === true;
  const capture = { owner, volumes: hasVolumes(source), ttl: "1h", ...(!isPaused && { contents: create.contents }) };
  const settled = await fork(parts.objects, {
    checkpoint: snapshotOf(source, capture),
    count: 1,
    isEarly: () => false,
    clone: ({ status }) => {
      const own = { ...inherited(source, inheritedByClones), ...create.annotations };
      // The time of a paused sandbox begins when it is resumed.
      const { pauseTime: _, ...request } = claimOf(parts, { ...create, namespace, annotations: own }, name);
      const origin = { [restoreFromAnnotations[0]]: status?.checkpointId ?? "" };
      const metadata = { name: "", namespace, annotations: origin };
      return createClaimed({ apiVersion, kind: "Sandbox", metadata, spec: { paused: true } }, request, parts.claims);
    },
    goal: "paused",
    discards: create.isRepeatable ? "failed" : "unfinished",
    onOrphan: () => undefined,
    timeoutMilliseconds,
    signal,
  });
  const { checkpoint, clones } = objectOf(settled);
  await parts.objects.checkpoints.remove(checkpoint).catch(() => undefined);
  const [clone] = clones;
  if (clone !== undefined && "object" in clone) return clone.object;
  throw clone?.failure ?? new RametError("Internal", `The sandbox ${name} was not cloned`);
}

interface ForkSandbox extends Omit<CreateSandbox, "source" | "requestId" | "namespace" | "annotations"> {
  /** A UUID for each clone. */
  requestIds: readonly string[];
}

/**
 * Captures a running sandbox with its memory and its volumes once, and creates clones of it, which succeed or fail independently. The
 * checkpoint expires after an hour: clones that are ready no longer need it.
 * @throws RametError the error of the capture
 */
export async function forkSandbox(
  parts: ServiceParts,
  source: Sandbox,
  { requestIds, ...create }: ForkSandbox,
): Promise<CloneResult[]> {
  const { owner, timeoutMilliseconds, signal } = create;
  const { namespace } = source.metadata;
  const settled = await fork(parts.objects, {
    checkpoint: snapshotOf(source, {
      owner,
      contents: ["memory", "filesystem"],
      volumes: hasVolumes(source),
      ttl: "1h",
    }),
    count: requestIds.length,
    // A warm sandbox needs the complete checkpoint, and is still faster than a new Pod.
    isEarly: () => !hasWarmSet(parts, source),
    clone: (checkpoint, at) => {
      const reference = checkpoint.status?.checkpointId ?? "";
      const requestId = requestIds[at];
      const request = {
        ...create,
        namespace,
        source: reference,
        annotations: inherited(source),
        ...defined({ requestId }),
      };
      return makeSandbox(parts, request, { kind: "checkpoint", reference, checkpoint });
    },
    goal: "serving",
    discards: "unfinished",
    // What cannot be deleted now ends when its time is over.
    onOrphan: () => undefined,
    timeoutMilliseconds,
    signal,
  });
  return objectOf(settled).clones;
}
