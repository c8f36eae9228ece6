import type { Sandbox } from "../../api/kinds/sandbox.ts";

/**
 * A rollback in progress: the sandbox's old Pod is being deleted, or a new one restored. Or the resume after a rollback of the paused
 * sandbox that replaces its volumes.
 */
export interface RollbackUnderWay {
  request: string;
  checkpointId: string;
  /** Undefined: the sandbox had no Pod when the rollback started. */
  replacedPodUid?: string | undefined;
}

export function rollbackUnderWay({ status }: Sandbox): RollbackUnderWay | undefined {
  const { request, onResume, checkpointId = onResume, replacedPodUid } = status?.ramet?.rollback ?? {};
  if (status?.phase !== "Resuming" || request === undefined || checkpointId === undefined) return undefined;
  return { request, checkpointId, replacedPodUid };
}
