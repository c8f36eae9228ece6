import type { Sandbox } from "../api/kinds/sandbox.ts";
import { RametError } from "../base/errors.ts";
import { ended, missingPart } from "./claim/progress.ts";
import { findCondition } from "../kube/conditions.ts";
import { describeState, failureOf } from "../kube/reported-state.ts";
import type { Objects, Settled, Wait } from "./objects.ts";
import { failedPause, pauseFailure } from "./pause.ts";

/** `loaded`: it serves, and all of its memory is loaded, so that it no longer needs its checkpoint. */
export type Goal = "serving" | "loaded" | "paused";

export interface SandboxWait extends Wait {
  /** @default `serving` */
  goal?: Goal;
  /** Whether the sandbox was created or claimed for this wait, so that it fails if a part of the request is rejected. */
  isNew?: boolean;
}

/**
 * Waits until a sandbox serves, or reaches another goal, or cannot reach it any more.
 * @param written as returned by the request that leads to the goal
 * @throws RametError `Timeout` or `Canceled`
 */
export function awaitSandbox(
  { sandboxes }: Pick<Objects, "sandboxes">,
  written: Sandbox,
  { goal = "serving", isNew = false, ...wait }: SandboxWait,
): Promise<Settled<Sandbox>> {
  const { name } = written.metadata;
  return sandboxes.follow(written, {
    what: `the sandbox ${name}`,
    until: (sandbox) => settledSandbox(name, sandbox, { goal, isNew }),
    describe: (sandbox) => describeSandbox(sandbox, goal),
    ...wait,
  });
}

/** Undefined while the sandbox may still reach the goal. */
function settledSandbox(
  name: string,
  sandbox: Sandbox | undefined,
  { goal, isNew }: Required<Pick<SandboxWait, "goal" | "isNew">>,
): Settled<Sandbox> | undefined {
  const changed = (how: string) => ({
    failure: new RametError("Conflict", `The sandbox ${name} was ${how} during the wait`),
  });
  if (sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined) return changed("deleted");
  const failure = failureIn(sandbox, isNew);
  if (failure !== undefined) return { failure };
  if (goal === "paused") return sandbox.spec.paused === true ? settledPause(sandbox) : changed("resumed");
  if (sandbox.spec.paused === true) return changed("paused");
  return missing(sandbox, goal) === undefined ? { object: sandbox } : undefined;
}

function failureIn(sandbox: Sandbox, isNew: boolean): RametError | undefined {
  const { metadata, status } = sandbox;
  const what = `The sandbox ${metadata.name}`;
  if (status?.phase === "Failed") return failureOf(`${what} failed`, sandbox, "SandboxNotReady");
  if (status?.phase === "Succeeded") return failureOf(`${what} has ended`, sandbox, "SandboxNotReady");
  const why = isNew ? ended(sandbox) : undefined;
  return why === undefined ? undefined : new RametError("SandboxNotReady", `${what} did not start: ${why}`);
}

/** A failed pause is not tried again: its sandbox keeps running until somebody requests another pause. */
function settledPause(sandbox: Sandbox): Settled<Sandbox> | undefined {
  if (sandbox.status?.phase === "Paused") return { object: sandbox };
  const why = pauseFailure(sandbox)?.replace(/\. Set spec\.paused to false, then to true, to try again$/, "");
  if (why === undefined) return undefined;
  const { name } = sandbox.metadata;
  const reported = { status: { message: why } };
  return { failure: failureOf(`The sandbox ${name} was not paused`, reported, "EngineFailed") };
}

function missing(sandbox: Sandbox, goal: Goal): string | undefined {
  const { status } = sandbox;
  if (status?.phase === "Paused") return "it is being resumed";
  // The controllers have to notice it, so that the sandbox can be paused again.
  if (failedPause(sandbox) !== undefined) return "the end of its failed pause was not processed yet";
  const isLoading = findCondition(status?.conditions, "MemoryLoaded")?.reason === "Loading";
  return missingPart(sandbox) ?? (goal === "loaded" && isLoading ? "its memory is being loaded" : undefined);
}

function describeSandbox(sandbox: Sandbox | undefined, goal: Goal): string {
  const state = describeState(sandbox);
  if (sandbox?.status?.phase !== "Running" || state !== "Running" || goal === "paused") return state;
  const why = missing(sandbox, goal);
  return why === undefined ? "Running and ready" : `Running: ${why}`;
}
