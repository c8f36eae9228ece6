import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { hasBegun, isOrWillBeCaptured, isPauseCheckpoint } from "../../api/state/checkpoint.ts";

/**
 * Finds the checkpoint of the same sandbox that is captured before another one. A capture that has begun comes first, then a pause,
 * which a queue must not delay, then the older Checkpoint; the UID decides between two of the same second.
 * @param all those of the sandbox
 */
export function earlierOf(checkpoint: Checkpoint, all: readonly Checkpoint[]): Checkpoint | undefined {
  const isOther = ({ metadata }: Checkpoint): boolean => metadata.uid !== checkpoint.metadata.uid;
  return all.find((other) => isOther(other) && isOrWillBeCaptured(other) && rank(other) < rank(checkpoint));
}

function rank(checkpoint: Checkpoint): string {
  const { creationTimestamp, uid } = checkpoint.metadata;
  const group = hasBegun(checkpoint) ? 0 : isPauseCheckpoint(checkpoint) ? 1 : 2;
  return `${group} ${creationTimestamp} ${uid}`;
}
