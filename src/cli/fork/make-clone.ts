import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { acsClone } from "../../backends/acs/acs-clone.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition, isConditionTrue } from "../../kube/conditions.ts";
import { describeState } from "../../kube/reported-state.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { isPaused, untilReady } from "../sandbox/until-ready.ts";
import { followRequest } from "../wait/follow.ts";

export interface CloneRequest {
  names: { name: string } | { generateName: string };
  checkpointId: string;
  annotations: Record<string, string>;
  /** Whether it gets no Pod until it is resumed. */
  paused: boolean;
  /** The source's, for other controllers. @default Ramet's controllers add it */
  template?: SandboxTemplateSpec | undefined;
}

/** `isOver`: the clone is finished; otherwise the controllers are still working on it. */
export type CloneResult = { object: Sandbox } | { failure: RametError; isOver: boolean };

/** Creates one clone, whose checkpoint may still be captured. Failures are returned, not thrown. */
export async function createClone(
  io: Io,
  cluster: Cluster,
  { names, checkpointId, annotations: own, paused, template }: CloneRequest,
): Promise<CloneResult> {
  const { annotations, spec } =
    template === undefined
      ? { annotations: { ...own, [restoreFromAnnotations[0]]: checkpointId }, spec: paused ? { paused } : {} }
      : acsClone(template, checkpointId);
  const manifest = {
    apiVersion,
    kind: "Sandbox",
    metadata: { ...names, namespace: cluster.namespace, annotations },
    spec,
  };
  try {
    return { object: await cluster.create(cluster.sandboxes, manifest, io.signal) };
  } catch (error) {
    const failure = withForkHint(RametError.from(error));
    return { failure, isOver: !failure.retryable && !withoutAnswer.has(failure.code) };
  }
}

function withForkHint(error: RametError): RametError {
  if (error.code !== "AlreadyExists") return error;
  return new RametError(error.code, error.message, { hint: "Choose another --name-prefix", cause: error });
}

/** Waits until a clone is paused, if it is created so, or has loaded all of its memory. Failures are returned, not thrown. */
export async function followClone(
  io: Io,
  cluster: Cluster,
  made: CloneResult,
  timeoutMilliseconds: number,
): Promise<CloneResult> {
  if ("failure" in made) return made;
  try {
    const isReached = made.object.spec.paused === true ? isPaused : isWhole;
    const settled = await untilReady(io, cluster, { sandbox: made.object, timeoutMilliseconds, isReached });
    return "failure" in settled ? { ...settled, isOver: true } : settled;
  } catch (error) {
    return { failure: RametError.from(error), isOver: false };
  }
}

/** After these errors it is unknown whether the sandbox was created. */
const withoutAnswer: ReadonlySet<ErrorCode> = new Set(["Canceled", "Timeout", "Unavailable"]);

/** Whether the clone is ready and no longer needs the checkpoint. */
function isWhole({ status }: Sandbox): boolean {
  const isLoading = findCondition(status?.conditions, "MemoryLoaded")?.reason === "Loading";
  return status?.phase === "Running" && isConditionTrue(status.conditions, "Ready") && !isLoading;
}

/**
 * Waits until a checkpoint has its id, which it gets when the capture starts, or is deleted. Clones can be created as soon as
 * the id is known.
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
