import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { describeState, failureOf } from "../../kube/reported-state.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { size } from "../output/table.ts";
import { followRequest, type Settled } from "../wait/follow.ts";

/** Waits until a checkpoint has succeeded or failed. @throws RametError `Timeout` or `Canceled` */
export async function untilSucceeded(
  io: Io,
  cluster: Cluster,
  created: Checkpoint,
  timeoutMilliseconds: number,
): Promise<Settled<Checkpoint>> {
  const { name } = created.metadata;
  const last = await followRequest(io, {
    resource: cluster.checkpoints,
    from: created,
    noun: "checkpoint",
    timeoutMilliseconds,
    isOver: hasEnded,
    describe: describeState,
    describeProgress,
  });
  return settled(name, last);
}

function hasEnded({ metadata, status }: Checkpoint): boolean {
  return metadata.deletionTimestamp !== undefined || status?.phase === "Succeeded" || status?.phase === "Failed";
}

function settled(name: string, checkpoint: Checkpoint | undefined): Settled<Checkpoint> {
  if (checkpoint?.status?.phase === "Failed") {
    return { failure: failureOf(`The checkpoint ${name} failed`, checkpoint, "Internal") };
  }
  if (checkpoint?.status?.phase !== "Succeeded") {
    return { failure: new RametError("Conflict", `The checkpoint ${name} was deleted during the wait`) };
  }
  return { object: checkpoint };
}

function describeProgress(checkpoint: Checkpoint | undefined): string {
  const state = describeState(checkpoint);
  const ramet = checkpoint?.status?.ramet;
  if (checkpoint?.status?.phase !== "Succeeded" || ramet?.sizeBytes === undefined) return state;
  const paused =
    ramet.pausedMilliseconds === undefined ? "" : `, paused for ${Math.round(ramet.pausedMilliseconds)} ms`;
  return `${state} (${size(ramet.sizeBytes)}${paused})`;
}
