import { parseDuration } from "../../api/duration.ts";
import { RametError } from "../../api/errors.ts";
import { annotations } from "../../api/labels.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import type { SandboxAction } from "./state.ts";

export interface Timers {
  /** What is due. */
  action?: Extract<SandboxAction, { do: "deleteSandbox" | "setPaused" }>;
  /** When the next one is. */
  nextAt?: Date;
}

/**
 * `spec.shutdownTime` and `spec.pauseTime`, as the reference keeps them: past the first the Sandbox is deleted, past the
 * second it is paused. With `agents.kruise.io/reserve-paused-sandbox-duration` a pause that is due moves the shutdown out
 * by that much, and so goes before a shutdown that is due as well.
 */
export function timers({ metadata, spec, status }: Sandbox, now: Date): Timers {
  const shutdownAt = instant(spec.shutdownTime);
  const isPausable = spec.paused !== true && status?.phase === "Running";
  const pauseAt = isPausable ? instant(spec.pauseTime) : undefined;
  const reserved = reserveMilliseconds(metadata.annotations?.[annotations.reservePausedSandboxDuration]);
  const pauseIsDue = pauseAt !== undefined && pauseAt <= now;
  if (pauseIsDue && reserved !== undefined) {
    return { action: { do: "setPaused", shutdownTime: new Date(now.getTime() + reserved).toISOString() } };
  }
  if (shutdownAt !== undefined && shutdownAt <= now) return { action: { do: "deleteSandbox" } };
  const nextAt = [shutdownAt, ...(pauseIsDue ? [] : [pauseAt])]
    .filter((at) => at !== undefined)
    .sort((a, b) => a.getTime() - b.getTime())[0];
  return { ...(pauseIsDue && { action: { do: "setPaused" } }), ...(nextAt && { nextAt }) };
}

function instant(time: string | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time);
}

/** Undefined: nothing is reserved. What is no duration reserves nothing, as the annotation is anybody's to write. */
function reserveMilliseconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text === "forever") return 100 * 365 * 86_400_000;
  try {
    return Math.max(0, parseDuration(text));
  } catch (error) {
    if (RametError.from(error).code !== "InvalidArgument") throw error;
    return undefined;
  }
}
