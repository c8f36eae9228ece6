import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations } from "../../api/names/labels.ts";
import { fail, retry, waiting, type BuildUnderWay } from "./build-under-way.ts";
import type { SnapshotPlan } from "./state.ts";
import { pointer, withStatus } from "./status.ts";

/** The Checkpoint of the version is there, or is being taken; only when it has succeeded does the version move. */
export function planCapture(underWay: BuildUnderWay, checkpoint: Checkpoint): SnapshotPlan {
  const { metadata, status } = checkpoint;
  if (metadata.annotations?.[annotations.snapshotDigest] !== underWay.build.digest)
    return foreign(underWay, metadata.name);
  if (metadata.deletionTimestamp === undefined) {
    if (status?.phase === "Succeeded") return publish(underWay, checkpoint);
    if (status?.phase === "Failed") {
      const plan = retry(underWay, "CaptureFailed", `The version could not be captured: ${status.message ?? ""}`);
      return { ...plan, actions: [{ do: "deleteCheckpoint", checkpoint }] };
    }
  }
  const message = `Waiting for the Checkpoint ${metadata.name}`;
  return waiting(underWay, { status: "True", reason: "CapturingVersion", message });
}

/** The name has twelve digits of the digest in it, so somebody has chosen it on purpose. */
function foreign(underWay: BuildUnderWay, name: string): SnapshotPlan {
  const what = `The version cannot be captured: a Checkpoint ${name} exists and is not of this build`;
  const { name: snapshot, namespace } = underWay.state.snapshot.metadata;
  const message = `${what}. Delete it, then: ramet snapshot build ${snapshot} -n ${namespace}`;
  return fail(underWay, { reason: "CaptureFailed", message });
}

function publish({ state, wanted, build, status }: BuildUnderWay, checkpoint: Checkpoint): SnapshotPlan {
  const { completionTime, checkpointId, ramet } = checkpoint.status ?? {};
  const version = Math.max(status.latestVersion ?? 0, ...(status.versions ?? []).map((one) => one.version)) + 1;
  const endedAt = state.now.toISOString();
  const buildMilliseconds = new Date(completionTime ?? endedAt).getTime() - new Date(build.startedAt).getTime();
  const built = {
    version,
    digest: wanted.digest.digest,
    checkpointId: checkpointId ?? "",
    checkpointName: checkpoint.metadata.name,
    createdAt: endedAt,
    ...(ramet?.sizeBytes !== undefined && { sizeBytes: ramet.sizeBytes }),
    // One that an earlier named snapshot of the name had built was there before this build.
    ...(buildMilliseconds > 0 && { buildMilliseconds }),
    parent: wanted.parent,
    ...(wanted.secrets.length > 0 && { secrets: wanted.secrets }),
  };
  const changes = {
    ...status,
    versions: [...(status.versions ?? []), built],
    latestVersion: version,
    build: { ...build, endedAt },
  };
  const message = `Version ${version} is built`;
  return {
    actions: [],
    status: withStatus(state, pointer(changes, built), { status: "False", reason: "Built", message }),
    transitions: [{ type: "Normal", reason: "VersionBuilt", action: "Build", note: `${message} and serves` }],
  };
}
