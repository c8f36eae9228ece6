import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { hasHardEnd, pauseFailure, unappliedRules } from "../../api/state/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { type Change, objectOf, type Wait } from "../../operations/objects.ts";
import { describeProblem, reportedBy } from "../../api/state/problem.ts";
import { retryConflicts } from "../../kube/apply.ts";
import { resumeChange, filesOnlyPause } from "../../operations/pause.ts";
import { readNewest, unlessTimeout, untilShownDeleted } from "./cache-lag.ts";
import { endAfter, type OnTimeout, timersFor } from "./create-sandbox.ts";
import { unknown, type ClientState, isCapturing, stateOf } from "./find-sandbox.ts";
import type { ServiceParts } from "./parts.ts";

/** In these states a sandbox serves. */
export const servingStates: readonly ClientState[] = ["running", "snapshotting"];

/** The current state of a sandbox, from the newest versions that this process knows. */
export function currentState({ known, sandboxes }: ServiceParts, sandbox: Sandbox): ClientState {
  const current = sandboxes.current(sandbox.metadata.uid);
  return current === undefined ? "killing" : stateOf(current, known.checkpointsOf(current));
}

/**
 * The state of a sandbox, which is read from the API server first: another replica may have paused or resumed it a moment ago.
 * @param expected states for which the cache is enough
 * @throws RametError `NotFound` if it has been deleted
 */
export async function verifiedState(
  parts: ServiceParts,
  sandbox: Sandbox,
  signal: AbortSignal,
  expected: readonly ClientState[] = [],
): Promise<ClientState> {
  const state = currentState(parts, sandbox);
  if (expected.includes(state)) return state;
  await readNewest(parts, sandbox, signal);
  return currentState(parts, sandbox);
}

/** The action when the time of a sandbox is over. */
export function onTimeoutOf({ metadata, spec }: Sandbox): OnTimeout {
  const noted = metadata.annotations?.[annotations.onTimeout];
  if (noted === "pause" || noted === "kill" || noted === "pauseFiles") return noted;
  return spec.pauseTime === undefined ? "kill" : "pause";
}

/** When the time of a running sandbox is over; undefined: never. */
export function endOf({ spec }: Sandbox): Date | undefined {
  const time = spec.pauseTime ?? spec.shutdownTime;
  return time === undefined ? undefined : new Date(time);
}

/** Whether it runs although a pause is requested: that has failed, perhaps after the answer to its client, and is not repeated. */
export function hasFailedPause({ sandboxes }: Pick<ServiceParts, "sandboxes">, sandbox: Sandbox): boolean {
  return pauseFailure(sandboxes.current(sandbox.metadata.uid) ?? sandbox) !== undefined;
}

/** Pauses a sandbox unless it is paused. @throws RametError like {@link pauseSandbox} */
export async function ensurePaused(
  parts: ServiceParts,
  sandbox: Sandbox,
  pause: Wait & { keepMemory: boolean },
): Promise<void> {
  const isPaused = (await verifiedState(parts, sandbox, pause.signal)) === "paused";
  if (!isPaused || hasFailedPause(parts, sandbox)) await pauseSandbox(parts, sandbox, pause);
}

/**
 * Pauses a sandbox and waits until it is paused. A pause in progress is joined, and after one that has failed, it is tried again.
 * @param keepMemory whether its memory is kept in addition to its files, if the sandbox keeps memory at all
 * @throws RametError `Conflict` if it is paused already; `NotFound` if it is being deleted; `Timeout`
 */
export async function pauseSandbox(
  parts: ServiceParts,
  sandbox: Sandbox,
  { keepMemory, ...waiting }: Wait & { keepMemory: boolean },
): Promise<void> {
  const { name, uid } = sandbox.metadata;
  const state = await verifiedState(parts, sandbox, waiting.signal);
  if (state === "killing" || state === "ended") throw unknown(name);
  const running = state === "paused" ? await withoutFailedPause(parts, sandbox, waiting) : sandbox;
  // A capture in progress ends first; the controllers see to that.
  const requested = state !== "pausing";
  const written = requested
    ? await parts.objects.sandboxes.patch(running, pausePatch(running, keepMemory))
    : (parts.sandboxes.current(uid) ?? sandbox);
  const settled = await awaitSandbox(parts.objects, written, { goal: "paused", ...waiting });
  if ("object" in settled) return;
  const current = parts.sandboxes.current(uid);
  if (current === undefined || current.metadata.deletionTimestamp !== undefined) throw unknown(name);
  if (requested) await undoPause(parts, running);
  throw settled.failure;
}

/**
 * The controllers must see that nobody requests the failed pause any more, and its change of what is kept must be undone.
 * @throws RametError `Conflict` if it has not failed
 */
async function withoutFailedPause(parts: ServiceParts, sandbox: Sandbox, waiting: Wait): Promise<Sandbox> {
  if (!hasFailedPause(parts, sandbox))
    throw new RametError("Conflict", `The sandbox ${sandbox.metadata.name} is paused already`);
  // If the next one fails too, it is tried again later.
  const { sandbox: running } = await connectSandbox(parts, sandbox, { ...waiting, lifeMilliseconds: 3_600_000 });
  return running;
}

function pausePatch(sandbox: Sandbox, keepMemory: boolean): Change {
  const filesOnly = keepMemory ? undefined : filesOnlyPause(sandbox);
  // A pause consumes no time: a paused sandbox is kept until it is deleted, or until its hard end.
  const timers = { pauseTime: null, ...(!hasHardEnd(sandbox) && { shutdownTime: null }) };
  return { ...filesOnly, spec: { ...filesOnly?.spec, paused: true, ...timers } };
}

/**
 * A failed pause leaves the sandbox as it was before. A change of its spec in the meantime is kept; what controllers and cells report
 * of the running sandbox is none.
 */
async function undoPause(parts: ServiceParts, paused: Sandbox): Promise<void> {
  const { shutdownTime = null, pauseTime = null } = paused.spec;
  await changeNewest(parts, paused, (current) =>
    pauseFailure(current) === undefined ? undefined : resumeChange(current, { shutdownTime, pauseTime }),
  ).catch(() => undefined);
}

/**
 * Changes the newest known version of a sandbox, and again if somebody else has changed it in between.
 * @param change returns undefined to change nothing
 * @returns the changed sandbox; undefined if nothing was changed
 */
export function changeNewest(
  parts: ServiceParts,
  found: Sandbox,
  change: (newest: Sandbox) => Change | undefined,
  signal?: AbortSignal,
): Promise<Sandbox | undefined> {
  return retryConflicts(async (number) => {
    if (number > 1) await readNewest(parts, found, signal);
    const newest = parts.sandboxes.current(found.metadata.uid) ?? found;
    const changes = change(newest);
    if (changes === undefined) return undefined;
    const { resourceVersion } = newest.metadata;
    return parts.objects.sandboxes.patch(newest, { ...changes, metadata: { ...changes.metadata, resourceVersion } });
  });
}

/**
 * Waits until a pause in progress has ended, by a resume of others too.
 * @throws RametError the error of the pause; `SandboxNotReady` if the sandbox has ended; `Timeout`
 */
export async function untilPaused({ objects, sandboxes }: ServiceParts, sandbox: Sandbox, wait: Wait): Promise<void> {
  const settled = await awaitSandbox(objects, sandboxes.current(sandbox.metadata.uid) ?? sandbox, {
    goal: "paused",
    ...wait,
  });
  if ("failure" in settled && settled.failure.code !== "Conflict") throw settled.failure;
}

/**
 * Lets a client use a sandbox for some time: resumes it if it is paused. The time of a running sandbox is only extended.
 * @returns whether it was resumed for the client, too
 * @throws RametError `Conflict` if it is being deleted; `NotFound` if it has ended; `Timeout`
 */
export async function connectSandbox(
  parts: ServiceParts,
  sandbox: Sandbox,
  { lifeMilliseconds, ...waiting }: Wait & { lifeMilliseconds: number },
): Promise<{ sandbox: Sandbox; resumed: boolean }> {
  const { name } = sandbox.metadata;
  const state = await verifiedState(parts, sandbox, waiting.signal);
  if (state === "killing") throw new RametError("Conflict", `The sandbox ${name} is being deleted`);
  if (state === "ended") throw unknown(name);
  const resumed = state === "paused" || state === "pausing";
  if (state === "pausing") await untilPaused(parts, sandbox, waiting);
  if (state === "snapshotting") await untilCaptured(parts, sandbox, waiting);
  const written = resumed
    ? await requestResume(parts, sandbox, lifeMilliseconds)
    : await extend(parts, sandbox, lifeMilliseconds);
  return { sandbox: objectOf(await awaitSandbox(parts.objects, written, waiting)), resumed };
}

/** Resumes a paused sandbox, which does not serve yet. */
export function requestResume(parts: ServiceParts, sandbox: Sandbox, lifeMilliseconds: number): Promise<Sandbox> {
  const current = parts.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  const timers = timersFor(onTimeoutOf(current), endAfter(parts, lifeMilliseconds));
  return parts.objects.sandboxes.patch(current, resumeChange(current, timers));
}

async function extend(parts: ServiceParts, sandbox: Sandbox, lifeMilliseconds: number): Promise<Sandbox> {
  const current = parts.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  const end = endOf(current);
  const requested = endAfter(parts, lifeMilliseconds);
  if (end === undefined || end >= requested) return current;
  return parts.objects.sandboxes.patch(current, { spec: timersFor(onTimeoutOf(current), requested) });
}

/**
 * Sets the remaining time of a running sandbox, which can become shorter.
 * @param extendOnly whether an earlier end is ignored
 * @throws RametError `Conflict` if it is not running; `NotFound` if it has ended
 */
export async function setLife(
  parts: ServiceParts,
  sandbox: Sandbox,
  { lifeMilliseconds, extendOnly, signal }: { lifeMilliseconds: number; extendOnly: boolean; signal: AbortSignal },
): Promise<void> {
  checkNotPaused(sandbox, await verifiedState(parts, sandbox, signal));
  if (extendOnly) await extend(parts, sandbox, lifeMilliseconds);
  else {
    const timers = timersFor(onTimeoutOf(sandbox), endAfter(parts, lifeMilliseconds));
    await parts.objects.sandboxes.patch(sandbox, { spec: timers });
  }
}

/** @throws RametError `NotFound` if it has ended; `Conflict` if it is paused */
function checkNotPaused({ metadata: { name } }: Sandbox, state: ClientState): void {
  if (state === "killing" || state === "ended") throw unknown(name);
  if (state === "paused" || state === "pausing") throw new RametError("Conflict", `The sandbox ${name} is ${state}`);
}

/**
 * Replaces the annotations that request the network of a running sandbox, and waits until its cell has what they request.
 * @throws RametError `Conflict` if it is not running; `NotFound` if it has ended; `InvalidArgument` if a level above does not
 *   allow a rule, whose place then takes a narrower one; `Timeout`
 */
export async function setNetwork(
  parts: ServiceParts,
  sandbox: Sandbox,
  { requested, ...waiting }: Wait & { requested: Record<string, string | null> },
): Promise<void> {
  checkNotPaused(sandbox, await verifiedState(parts, sandbox, waiting.signal, ["starting", ...servingStates]));
  const written = await parts.objects.sandboxes.patch(sandbox, { metadata: { annotations: requested } });
  const settled = objectOf(await awaitSandbox(parts.objects, written, waiting));
  const [refused] = unappliedRules(settled);
  if (refused === undefined) return;
  throw new RametError("InvalidArgument", describeProblem(reportedBy(settled.status, refused)));
}

/**
 * Deletes a sandbox with the state of its pause, and waits for a moment until it is gone. Its snapshots stay.
 * @throws RametError `NotFound` if it does not exist any more
 */
export async function killSandbox(
  { informers, sandboxes }: ServiceParts,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<void> {
  const { metadata } = sandbox;
  const { uid, name } = metadata;
  if (!(await informers.sandboxes.resource.delete(metadata, { uid }))) {
    await untilShownDeleted(sandboxes, sandbox, signal);
    throw unknown(name);
  }
  const options = { what: `Deleting the sandbox ${name}`, timeoutMilliseconds: killMilliseconds, signal };
  // Its programs take their time to end. Nothing brings it back.
  await sandboxes.until(uid, (current) => (current === undefined ? true : undefined), options).catch(unlessTimeout);
}

const killMilliseconds = 5_000;

/** Waits until no capture of the sandbox is in progress. */
export async function untilCaptured(parts: ServiceParts, sandbox: Sandbox, waiting: Wait): Promise<void> {
  for (const checkpoint of parts.known.checkpointsOf(sandbox).filter(isCapturing)) {
    await parts.checkpoints.until(
      checkpoint.metadata.uid,
      (current) => (current !== undefined && isCapturing(current) ? undefined : true),
      { what: `Waiting for the checkpoint ${checkpoint.metadata.name}`, ...waiting },
    );
  }
}
