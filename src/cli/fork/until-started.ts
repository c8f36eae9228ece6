import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { followWish } from "../wait/follow-request.ts";
import { describeState } from "../wait/outcome.ts";

/**
 * Waits until a checkpoint has its id, which it gets when the capture begins, or is gone. A clone that names the id may be
 * wished for from then on.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
export function untilBegun(
  io: Io,
  cluster: Cluster,
  created: Checkpoint,
  timeoutMilliseconds: number,
): Promise<Checkpoint | undefined> {
  return followWish(io, {
    ...{ resource: cluster.checkpoints, from: created, noun: "checkpoint", timeoutMilliseconds },
    isOver: ({ metadata, status }) => status?.checkpointId !== undefined || metadata.deletionTimestamp !== undefined,
    describe: describeState,
  });
}
