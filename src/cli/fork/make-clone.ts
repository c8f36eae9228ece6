import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition, isConditionTrue } from "../../kube/conditions.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { untilReady } from "../sandbox/until-ready.ts";
import { describeState, followRequest } from "../wait/follow.ts";

export interface CloneRequest {
  names: { name: string } | { generateName: string };
  checkpointId: string;
}

/** `isOver`: nothing more becomes of it; otherwise the controllers go on with it. */
export type CloneResult = { object: Sandbox } | { failure: RametError; isOver: boolean };

/** Wishes for one clone of several; it waits for a checkpoint that is being taken. What goes wrong is its result, and is not thrown. */
export async function createClone(
  io: Io,
  cluster: Cluster,
  { names, checkpointId }: CloneRequest,
): Promise<CloneResult> {
  const manifest = {
    apiVersion,
    kind: "Sandbox",
    metadata: { ...names, namespace: cluster.namespace, annotations: { [restoreFromAnnotations[0]]: checkpointId } },
    spec: {},
  };
  try {
    return { object: await cluster.create(cluster.sandboxes, manifest, io.signal) };
  } catch (error) {
    const failure = RametError.from(error);
    return { failure, isOver: !failure.retryable && !withoutAnswer.has(failure.code) };
  }
}

/** One clone that was wished for, when all of its memory is in. What goes wrong with it is its result, and is not thrown. */
export async function followClone(
  io: Io,
  cluster: Cluster,
  made: CloneResult,
  timeoutMilliseconds: number,
): Promise<CloneResult> {
  if ("failure" in made) return made;
  try {
    const settled = await untilReady(io, cluster, { sandbox: made.object, timeoutMilliseconds, isReached: isWhole });
    return "failure" in settled ? { ...settled, isOver: true } : settled;
  } catch (error) {
    return { failure: RametError.from(error), isOver: false };
  }
}

/** Of a request that had no answer nobody knows whether the sandbox was made. */
const withoutAnswer: ReadonlySet<ErrorCode> = new Set(["Canceled", "Timeout", "Unavailable"]);

/** It answers, and has no more need of the checkpoint. */
function isWhole({ status }: Sandbox): boolean {
  const isLoading = findCondition(status?.conditions, "MemoryLoaded")?.reason === "Loading";
  return status?.phase === "Running" && isConditionTrue(status.conditions, "Ready") && !isLoading;
}

/**
 * Waits until a checkpoint has its id, which it gets when the capture begins, or is gone. A clone that names the id may be
 * wished for from then on.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
export function untilStarted(
  io: Io,
  cluster: Cluster,
  created: Checkpoint,
  timeoutMilliseconds: number,
): Promise<Checkpoint | undefined> {
  return followRequest(io, {
    resource: cluster.checkpoints,
    from: created,
    noun: "checkpoint",
    timeoutMilliseconds,
    isOver: ({ metadata, status }) => status?.checkpointId !== undefined || metadata.deletionTimestamp !== undefined,
    describe: describeState,
  });
}
