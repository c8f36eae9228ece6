import { parseDuration } from "../../base/duration.ts";
import { garbageOf, type CollectionState, type Garbage } from "./garbage.ts";

/** What its own controller deletes when its time is over: told, and left to that. */
export function timeToLive({ checkpoints, claims }: CollectionState): Garbage[] {
  const kept = [
    ...checkpoints.map((object) => ({ object, kind: "Checkpoint" as const, ttl: object.spec.ttlAfterFinished })),
    ...claims.map((object) => ({ object, kind: "SandboxClaim" as const, ttl: object.spec.ttlAfterCompleted })),
  ];
  return kept.flatMap(({ object, kind, ttl }) => {
    const dueAt = endOf(object.status?.completionTime, ttl);
    if (dueAt === undefined || object.metadata.deletionTimestamp !== undefined) return [];
    const why = `its time to live is over at ${dueAt}`;
    return [garbageOf(object, { garbage: "TimeToLive", kind, why, dueAt })];
  });
}

/** Undefined for one that has not ended, is kept for ever, or whose duration nobody can read: its status says so. */
function endOf(completionTime: string | undefined, ttl: string | undefined): string | undefined {
  if (completionTime === undefined || ttl === undefined) return undefined;
  try {
    const milliseconds = parseDuration(ttl);
    return milliseconds < 0 ? undefined : new Date(Date.parse(completionTime) + milliseconds).toISOString();
  } catch {
    return undefined;
  }
}
