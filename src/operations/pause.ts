import { annotations } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { findCondition } from "../kube/conditions.ts";
import type { Change } from "./objects.ts";

/** Why the current request to pause has failed, so that the sandbox continues to run; undefined if it has not. */
export function pauseFailure(sandbox: Sandbox): string | undefined {
  const { metadata, spec, status } = sandbox;
  if (spec.paused !== true || status?.observedGeneration !== metadata.generation) return undefined;
  return failedPause(sandbox);
}

/** Why the last pause has failed; undefined if it has not, or if the controllers have noticed that nobody requests it any more. */
export function failedPause({ status }: Sandbox): string | undefined {
  const condition = findCondition(status?.conditions, "SandboxPaused");
  return condition?.reason === "CheckpointFailed" ? condition.message : undefined;
}

/** The change that resumes a paused sandbox. After a pause without its memory, the next one keeps the memory again. */
export function resumeChange({ metadata }: Sandbox, timers: object = {}): Change {
  const before = metadata.annotations?.[annotations.contentsAfterPause];
  return {
    ...(before !== undefined && { metadata: { annotations: { [annotations.contentsAfterPause]: null } } }),
    spec: {
      paused: false,
      ...(before !== undefined && { persistentContents: contentsFrom(before) }),
      ...timers,
    },
  };
}

/** Users can write the annotation. Null removes the field: the default applies. */
function contentsFrom(text: string): string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.filter((word) => typeof word === "string") : null;
  } catch {
    return null;
  }
}
