import type { Sandbox } from "../api/kinds/sandbox.ts";
import { conditionOf, describeProblem } from "../api/state/problem.ts";
import {
  failedPause,
  isStartRefused,
  missingPart,
  pauseFailure,
  sandboxState,
  whyNeverServing,
} from "../api/state/sandbox.ts";
import { RametError } from "../base/errors.ts";
import { describeReport, describeState, failureOf } from "../kube/conditions.ts";
import type { Settled, Wait, Watched } from "./objects.ts";

/** `loaded`: it serves, and all of its memory is loaded, so that it no longer needs its checkpoint. */
export type Goal = "serving" | "loaded" | "paused";

export interface SandboxWait extends Wait {
  /** @default `serving` */
  goal?: Goal;
  /** Whether the sandbox was created or claimed for this wait, so that it fails if a part of the request is rejected. */
  isNew?: boolean;
  /** How long a start may be refused, for example because an image cannot be pulled. @default that of builds and sets */
  refusedMilliseconds?: number;
}

/**
 * Waits until a sandbox serves, or reaches another goal, or cannot reach it any more.
 * @param written as returned by the request that leads to the goal
 * @throws RametError `Timeout` or `Canceled`
 */
export function awaitSandbox(
  { sandboxes }: { sandboxes: Watched<Sandbox> },
  written: Sandbox,
  { goal = "serving", isNew = false, refusedMilliseconds = mostRefusedMilliseconds, ...wait }: SandboxWait,
): Promise<Settled<Sandbox>> {
  const { name } = written.metadata;
  let refusedSince: number | undefined;
  return sandboxes.follow(written, {
    what: `the sandbox ${name}`,
    until: (sandbox, waited) => {
      const settled = settledSandbox(name, sandbox, { goal, isNew });
      if (settled !== undefined || sandbox === undefined) return settled;
      refusedSince = isStartRefused(sandbox) ? (refusedSince ?? waited) : undefined;
      const isGivenUp = refusedSince !== undefined && waited - refusedSince >= refusedMilliseconds;
      return isGivenUp ? { failure: notStarted(sandbox) } : undefined;
    },
    requeueAfterMilliseconds: Math.min(15_000, refusedMilliseconds),
    describe: (sandbox) => describeSandbox(sandbox, goal),
    ...wait,
  });
}

/** After this time the controllers give up on sandboxes of builds and sets. A user's own may start later, so it stays. */
const mostRefusedMilliseconds = 180_000;

function notStarted(sandbox: Sandbox): RametError {
  const why = describeReport(sandbox) ?? "it gave no reason";
  return new RametError("SandboxNotReady", `The sandbox ${sandbox.metadata.name} did not start: ${why}`);
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
  const outcome = status?.phase === "Succeeded" ? "has ended" : "failed";
  if (sandboxState(sandbox).is === "ended") return failureOf(`${what} ${outcome}`, sandbox, "SandboxNotReady");
  const why = isNew ? whyNeverServing(sandbox) : undefined;
  return why && new RametError("SandboxNotReady", `${what} did not start: ${describeProblem(why)}`);
}

/** A failed pause is not tried again: its sandbox keeps running until somebody requests another pause. */
function settledPause(sandbox: Sandbox): Settled<Sandbox> | undefined {
  if (sandboxState(sandbox).is === "paused") return { object: sandbox };
  if (pauseFailure(sandbox) === undefined) return undefined;
  const what = `The sandbox ${sandbox.metadata.name} was not paused`;
  return { failure: failureOf(what, sandbox, "EngineFailed", "SandboxPaused") };
}

function missing(sandbox: Sandbox, goal: Goal): string | undefined {
  if (sandbox.status?.phase === "Paused") return "it is being resumed";
  // The controllers have to notice it, so that the sandbox can be paused again.
  if (failedPause(sandbox) !== undefined) return "the end of its failed pause was not processed yet";
  const isLoading = conditionOf(sandbox, "MemoryLoaded")?.reason === "Loading";
  return missingPart(sandbox) ?? (goal === "loaded" && isLoading ? "its memory is being loaded" : undefined);
}

function describeSandbox(sandbox: Sandbox | undefined, goal: Goal): string {
  const state = describeState(sandbox);
  if (sandbox?.status?.phase !== "Running" || state !== "Running" || goal === "paused") return state;
  const why = missing(sandbox, goal);
  return why === undefined ? "Running and ready" : `Running: ${why}`;
}
