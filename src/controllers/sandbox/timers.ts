import { parseDuration } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { annotations } from "../../api/names/labels.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
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
export function timers(sandbox: Sandbox, now: Date): Timers {
  const { metadata, spec } = sandbox;
  const shutdownAt = instant(spec.shutdownTime);
  const pauseAt = isPausable(sandbox) ? instant(spec.pauseTime) : undefined;
  const pauseIsDue = pauseAt !== undefined && pauseAt <= now;
  const reserved = reserveMilliseconds(metadata.annotations?.[annotations.reservePausedSandboxDuration]);
  if (pauseIsDue && reserved !== undefined) {
    return { action: { do: "setPaused", shutdownTime: new Date(now.getTime() + reserved).toISOString() } };
  }
  if (shutdownAt !== undefined && shutdownAt <= now) return { action: { do: "deleteSandbox" } };
  const nextAt = earlier(shutdownAt, pauseIsDue ? undefined : pauseAt);
  return { ...(pauseIsDue && { action: { do: "setPaused" } }), ...(nextAt && { nextAt }) };
}

function isPausable({ spec, status }: Sandbox): boolean {
  return spec.paused !== true && status?.phase === "Running";
}

export function earlier(a: Date | undefined, b: Date | undefined): Date | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
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
