import { hash } from "node:crypto";
import { type Checkpoint, type CheckpointManifest, dataAvailable } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { disruptionPolicyOf } from "../../api/pod/disruption.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { Pod } from "../../api/schema/pod.ts";
import {
  checkpointIdOf,
  checkpointState,
  type CheckpointState,
  isAutomatic,
  isCloneable,
  isPauseCheckpoint,
  storedIdOf,
} from "../../api/state/checkpoint.ts";
import type { CheckpointName } from "../../backends/backend.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import { defined } from "../../base/defined.ts";
import { controllerOf } from "../../kube/object.ts";

/** Each Pod of a sandbox is disrupted once. */
export function disruptionCheckpointName({ metadata: { name, uid }, status }: Sandbox): string {
  return `${name}-pause-${hash("sha256", `${uid}/disruption/${status?.podInfo?.podUID}`).slice(0, 8)}`;
}

/** Whether a disruption goes on: the sandbox is captured, or it is to continue in another Pod. */
export function isUnderWay(disruption: { outcome: string } | undefined): boolean {
  return ["Migrating", "Restoring", "Pausing"].includes(disruption?.outcome ?? "");
}

export function isSavedFrom(sandbox: Sandbox, pod: Pod): boolean {
  return disruptionPolicyOf(pod) !== "End" && isUsed(sandbox);
}

/** A set replaces its sandboxes that nobody has claimed faster than it moves them, and a build starts again. */
export function isUsed(sandbox: Sandbox): boolean {
  return !isUnclaimed(sandbox) && controllerOf(sandbox)?.kind !== "NamedSnapshot";
}

/** Whether it belongs to a set, and no client has claimed it in this version of the object. */
export function isUnclaimed(sandbox: Sandbox): boolean {
  return controllerOf(sandbox)?.kind === "SandboxSet" && sandbox.metadata.labels?.[labels.sandboxClaimed] !== "true";
}

/** The Checkpoint that holds a sandbox during a pause. Each pause of a sandbox has its own, and each disruption. */
export function pauseCheckpoint(
  sandbox: Sandbox,
  persistentContents: readonly string[],
  isOfDisruption = false,
): CheckpointManifest {
  const { name, namespace, uid } = sandbox.metadata;
  const contents = persistentContents.filter((content) => content === "memory" || content === "filesystem");
  const digest = hash("sha256", `${uid}/${sandbox.metadata.generation ?? 0}`);
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      name: isOfDisruption ? disruptionCheckpointName(sandbox) : `${name}-pause-${digest.slice(0, 8)}`,
      namespace,
      labels: { [labels.purpose]: "pause", [labels.sandboxName]: name },
      ownerReferences: [{ apiVersion, kind: "Sandbox", name, uid, controller: true }],
    },
    spec: {
      sandboxName: name,
      keepRunning: false,
      persistentContents: contents.includes("filesystem") && !contents.includes("memory") ? ["filesystem"] : both,
    },
  };
}

/** An automatic Checkpoint of a running sandbox. */
export function automaticCheckpoint(
  sandbox: Sandbox,
  { name: own, persistentContents }: { name: string; persistentContents: readonly string[] },
): CheckpointManifest {
  const { metadata, spec, ...rest } = pauseCheckpoint(sandbox, persistentContents);
  const { name } = sandbox.metadata;
  return {
    ...rest,
    metadata: {
      ...metadata,
      name: own,
      labels: { [labels.purpose]: "automatic", [labels.sandboxName]: name },
      annotations: {
        [annotations.waitsTurn]: "true",
        ...defined({ [annotations.rollbackDigest]: lastRollback(sandbox.status) }),
      },
    },
    spec: { ...spec, keepRunning: true },
  };
}

/** @param base the time from which its own follows, so that a repeat finds it */
export function automaticCheckpointName({ metadata: { name, uid }, status }: Sandbox, base: number): string {
  return `${name}-auto-${hash("sha256", `${uid}/${status?.podInfo?.podUID}/${base}`).slice(0, 8)}`;
}

/**
 * The automatic checkpoint from which a sandbox continues if its Pod is lost: the last one whose data exists, unless the sandbox was
 * rolled back or claimed since. Nobody wants to have what was before that.
 */
export function lastAutomatic({ status }: Sandbox, owned: readonly Checkpoint[]): Checkpoint | undefined {
  const isUsable = ({ metadata, status: own }: Checkpoint) =>
    metadata.annotations?.[annotations.rollbackDigest] === lastRollback(status) &&
    own?.conditions?.find(({ type }) => type === dataAvailable)?.status !== "False";
  return owned.filter((one) => isAutomatic(one) && isCloneable(one) && isUsable(one)).toSorted(byCapture)[0];
}

/** The automatic checkpoints that are not needed beside the last `kept` ones that have succeeded: those before, and failed ones. */
export function surplusOf(automatic: readonly Checkpoint[], kept: number): Checkpoint[] {
  const those = (state: CheckpointState) => automatic.filter((one) => checkpointState(one) === state);
  return [...those("succeeded").toSorted(byCapture).slice(kept), ...those("failed")];
}

/** The digest of the last rollback that has changed the sandbox. */
export function lastRollback(status: Sandbox["status"]): string | undefined {
  const { request, refused, checkpointId, before } = status?.ramet?.rollback ?? {};
  return refused === true || checkpointId !== undefined ? before : request;
}

/** The latest comes first. They are taken one after the other, and the clocks of the nodes that took them can differ. */
function byCapture(a: Checkpoint, b: Checkpoint): number {
  const at = ({ metadata }: Checkpoint) => Date.parse(metadata.creationTimestamp);
  return at(b) - at(a) || capturedAt(b) - capturedAt(a);
}

export function capturedAt({ metadata, status }: Checkpoint): number {
  return Date.parse(status?.ramet?.cutAt ?? metadata.creationTimestamp);
}

/** The UID of the Pod that a checkpoint started with, if it has started. */
export function capturedPodUid({ metadata }: Checkpoint): string | undefined {
  return metadata.annotations?.[annotations.podUid];
}

/** The id of the checkpoint that a sandbox is restored from which has not had a Pod. */
export function heldFrom({ metadata }: Checkpoint): string | undefined {
  return metadata.annotations?.[annotations.heldFrom];
}

const both: ("memory" | "filesystem")[] = ["memory", "filesystem"];

/** The id under which a checkpoint's data is stored: its own, or that of the checkpoint whose data it shares. */
export function dataIdOf(checkpoint: Checkpoint): string {
  return storedIdOf(checkpoint) ?? checkpointIdOf(checkpoint.metadata);
}

/** Identifies what was captured for this checkpoint alone, such as the volumes of a paused sandbox. */
export function ownDataNameOf({ metadata, status }: Checkpoint): CheckpointName {
  return { namespace: metadata.namespace, checkpointId: status?.checkpointId ?? checkpointIdOf(metadata) };
}

/** Identifies a checkpoint's data to the backends. */
export function dataNameOf(checkpoint: Checkpoint): CheckpointName {
  return { namespace: checkpoint.metadata.namespace, checkpointId: dataIdOf(checkpoint) };
}

/**
 * The checkpoint that holds a paused sandbox, or that is being taken for a pause: of the sandbox's current or last Pod, or of a
 * sandbox without any. After a rollback of the paused sandbox, it is the one of the rollback. One that has not failed takes precedence.
 * @param pending the digest of a requested rollback, whose checkpoint does not hold the sandbox yet
 */
export function pauseCheckpointOf(
  { status }: Sandbox,
  owned: readonly Checkpoint[],
  pending?: string,
): Checkpoint | undefined {
  const digestOf = ({ metadata }: Checkpoint) => metadata.annotations?.[annotations.rollbackDigest];
  const ofThisPod = owned.filter((one) => {
    const podUid = capturedPodUid(one);
    const last = status?.podInfo?.podUID;
    const isOfPod = heldFrom(one) === undefined ? podUid === undefined || podUid === last : last === undefined;
    return isPauseCheckpoint(one) && isOfPod && (pending === undefined || digestOf(one) !== pending);
  });
  const usable = ofThisPod.filter((one) => checkpointState(one) !== "failed");
  const answered = lastRollback(status);
  const rolledBack = usable.find((one) => digestOf(one) !== undefined && digestOf(one) === answered);
  return rolledBack ?? restoredByDisruption(status, owned) ?? usable[0] ?? ofThisPod[0];
}

/** The automatic checkpoint that holds a sandbox whose last Pod was lost, until it has another one or another pause holds it. */
function restoredByDisruption(status: Sandbox["status"], owned: readonly Checkpoint[]): Checkpoint | undefined {
  const { checkpoint: name, podUID, outcome } = status?.ramet?.disruption ?? {};
  if (name === undefined || podUID !== status?.podInfo?.podUID || outcome === "Lost") return undefined;
  return owned.find((one) => isAutomatic(one) && one.metadata.name === name && isCloneable(one));
}

/**
 * The Checkpoint that holds a paused sandbox without a capture: it shares the data of another one.
 * @param digest of the rollback that requests it. @default the sandbox is created paused
 */
export function storedPause(
  sandbox: Sandbox,
  { digest, source, contents }: { digest?: string | undefined; source: RestoreSource; contents: readonly string[] },
): CheckpointManifest {
  const { metadata, spec, ...rest } = pauseCheckpoint(sandbox, contents);
  const { name, uid } = sandbox.metadata;
  const suffix = digest ?? hash("sha256", `${uid}/created`);
  const podUid = sandbox.status?.podInfo?.podUID;
  return {
    ...rest,
    spec,
    metadata: {
      ...metadata,
      name: `${name}-pause-${suffix.slice(0, 8)}`,
      labels: { ...metadata.labels, [labels.dataOf]: (source.data ?? source.name).checkpointId },
      annotations: {
        ...defined({ [annotations.rollbackDigest]: digest }),
        ...(podUid === undefined
          ? { [annotations.heldFrom]: source.name.checkpointId }
          : { [annotations.podUid]: podUid }),
      },
    },
  };
}
