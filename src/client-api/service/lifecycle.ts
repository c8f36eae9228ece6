import { filesOnlyPause } from "../../api/kinds/files-only-pause.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { untilServing } from "./create-sandbox.ts";
import { unknown } from "./find-sandbox.ts";
import type { ServiceParts } from "./parts.ts";
import { type ClientState, isUnfinished, pauseFailure, stateOf } from "./sandbox-state.ts";
import { type OnTimeout, timersFor } from "./timers.ts";

interface Waiting {
  timeoutMilliseconds: number;
  signal: AbortSignal;
}

/** The current state of a sandbox, from the newest versions that this process knows. */
export function currentState({ known, sandboxes }: ServiceParts, sandbox: Sandbox): ClientState {
  const current = sandboxes.current(sandbox.metadata.uid);
  return current === undefined ? "killing" : stateOf(current, known.checkpointsOf(current));
}

/** What happens when the time of a sandbox is over. */
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

/**
 * Pauses a sandbox and waits until it is paused. A pause in progress is joined.
 * @param keepMemory whether its memory is kept in addition to its files, if the sandbox keeps memory at all
 * @throws RametError `Conflict` if it is paused already; `NotFound` if it is being deleted; `Timeout`
 */
export async function pauseSandbox(
  parts: ServiceParts,
  sandbox: Sandbox,
  { keepMemory, ...waiting }: Waiting & { keepMemory: boolean },
): Promise<void> {
  const { name, uid } = sandbox.metadata;
  const state = currentState(parts, sandbox);
  if (state === "killing" || state === "ended") throw unknown(name);
  if (state === "paused") throw new RametError("Conflict", `The sandbox ${name} is paused already`);
  // A capture in progress ends first; the controllers see to that.
  if (state !== "pausing") await patch(parts, sandbox, pausePatch(sandbox, keepMemory));
  await untilPaused(parts, sandbox, waiting).catch(async (error: unknown) => {
    if (state !== "pausing") await undoPause(parts, sandbox);
    throw error;
  });
  if (parts.sandboxes.current(uid) === undefined) throw unknown(name);
}

function pausePatch(sandbox: Sandbox, keepMemory: boolean): SandboxChange {
  const filesOnly = keepMemory ? undefined : filesOnlyPause(sandbox);
  // A pause consumes no time: a paused sandbox is kept until it is deleted.
  const timers = { shutdownTime: null, pauseTime: null };
  return { ...filesOnly, spec: { ...filesOnly?.spec, paused: true, ...timers } };
}

/** A failed pause leaves the sandbox as it was before. Another change of the sandbox in the meantime is kept. */
async function undoPause(parts: ServiceParts, sandbox: Sandbox): Promise<void> {
  const current = parts.sandboxes.current(sandbox.metadata.uid);
  if (current === undefined || pauseFailure(current) === undefined) return;
  const { shutdownTime = null, pauseTime = null } = sandbox.spec;
  const change = resumeChange(current, { shutdownTime, pauseTime });
  const { resourceVersion } = current.metadata;
  await patch(parts, current, { ...change, metadata: { ...change.metadata, resourceVersion } }).catch(() => undefined);
}

/** Waits until a pause in progress has ended. @throws RametError `EngineFailed` if it fails; `SandboxNotReady`; `Timeout` */
export async function untilPaused(parts: ServiceParts, { metadata }: Sandbox, waiting: Waiting): Promise<void> {
  const { uid, name } = metadata;
  await parts.sandboxes.until(
    uid,
    (current) => {
      const state = current === undefined ? "killing" : stateOf(current);
      if (state === "ended")
        throw new RametError("SandboxNotReady", `The sandbox ${name} ended: ${current?.status?.message ?? ""}`);
      const failure = current && pauseFailure(current);
      if (failure !== undefined) throw new RametError("EngineFailed", `The sandbox ${name} was not paused: ${failure}`);
      return state === "pausing" ? undefined : true;
    },
    { what: `Pausing the sandbox ${name}`, ...waiting },
  );
}

/** Whether the sandbox was resumed for the client, or ran already. */
export interface Connected {
  sandbox: Sandbox;
  resumed: boolean;
}

/**
 * Lets a client use a sandbox for some time: resumes it if it is paused. The time of a running sandbox is only extended.
 * @throws RametError `Conflict` if it is being deleted; `NotFound` if it has ended; `Timeout`
 */
export async function connectSandbox(
  parts: ServiceParts,
  sandbox: Sandbox,
  { lifeMilliseconds, ...waiting }: Waiting & { lifeMilliseconds: number },
): Promise<Connected> {
  const { name } = sandbox.metadata;
  const state = currentState(parts, sandbox);
  if (state === "killing") throw new RametError("Conflict", `The sandbox ${name} is being deleted`);
  if (state === "ended") throw unknown(name);
  const resumed = state === "paused" || state === "pausing";
  if (state === "pausing") await untilPaused(parts, sandbox, waiting);
  if (state === "snapshotting") await untilCaptured(parts, sandbox, waiting);
  const written = resumed
    ? await resume(parts, sandbox, lifeMilliseconds)
    : await extend(parts, sandbox, lifeMilliseconds);
  return { sandbox: await untilServing(parts, written, waiting), resumed };
}

async function resume(parts: ServiceParts, sandbox: Sandbox, lifeMilliseconds: number): Promise<Sandbox> {
  const current = parts.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  const end = new Date(parts.clock.now().getTime() + lifeMilliseconds);
  return patch(parts, current, resumeChange(current, timersFor(onTimeoutOf(current), end)));
}

/** The change that resumes a paused sandbox. After a pause without its memory, the next one keeps the memory again. */
export function resumeChange({ metadata }: Sandbox, timers: object): SandboxChange {
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

async function extend(parts: ServiceParts, sandbox: Sandbox, lifeMilliseconds: number): Promise<Sandbox> {
  const current = parts.sandboxes.current(sandbox.metadata.uid) ?? sandbox;
  const end = endOf(current);
  const wanted = new Date(parts.clock.now().getTime() + lifeMilliseconds);
  if (end === undefined || end >= wanted) return current;
  return patch(parts, current, { spec: timersFor(onTimeoutOf(current), wanted) });
}

/**
 * Sets the remaining time of a running sandbox, which can become shorter.
 * @param extendOnly whether an earlier end is ignored
 * @throws RametError `Conflict` if it is not running; `NotFound` if it has ended
 */
export async function setLife(
  parts: ServiceParts,
  sandbox: Sandbox,
  { lifeMilliseconds, extendOnly }: { lifeMilliseconds: number; extendOnly: boolean },
): Promise<void> {
  const { name } = sandbox.metadata;
  const state = currentState(parts, sandbox);
  if (state === "killing" || state === "ended") throw unknown(name);
  if (state === "paused" || state === "pausing") throw new RametError("Conflict", `The sandbox ${name} is ${state}`);
  if (extendOnly) await extend(parts, sandbox, lifeMilliseconds);
  else {
    const end = new Date(parts.clock.now().getTime() + lifeMilliseconds);
    await patch(parts, sandbox, { spec: timersFor(onTimeoutOf(sandbox), end) });
  }
}

/**
 * Replaces annotations that request egress rules. The controllers apply them to a running sandbox.
 * @throws RametError `Conflict` if it is not running; `NotFound` if it has ended
 */
export async function setEgress(
  parts: ServiceParts,
  sandbox: Sandbox,
  requested: Record<string, string | null>,
): Promise<void> {
  const { name } = sandbox.metadata;
  const state = currentState(parts, sandbox);
  if (state === "killing" || state === "ended") throw unknown(name);
  if (state === "paused" || state === "pausing") throw new RametError("Conflict", `The sandbox ${name} is ${state}`);
  await patch(parts, sandbox, { metadata: { annotations: requested } });
}

/**
 * Deletes a sandbox with the state of its pause, and waits for a moment until it is gone. Its snapshots stay.
 * @throws RametError `NotFound` if it does not exist any more
 */
export async function killSandbox(
  { informers, sandboxes }: ServiceParts,
  { metadata }: Sandbox,
  signal: AbortSignal,
): Promise<void> {
  const { uid, name } = metadata;
  if (!(await informers.sandboxes.resource.delete(metadata, { uid }))) throw unknown(name);
  const options = { what: `Deleting the sandbox ${name}`, timeoutMilliseconds: killMilliseconds, signal };
  await sandboxes
    .until(uid, (current) => (current === undefined ? true : undefined), options)
    .catch((error: unknown) => {
      // Its programs take their time to end. Nothing brings it back.
      if (RametError.from(error).code !== "Timeout") throw error;
    });
}

const killMilliseconds = 5_000;

/** Waits until no capture of the sandbox is in progress. */
export async function untilCaptured(parts: ServiceParts, sandbox: Sandbox, waiting: Waiting): Promise<void> {
  for (const checkpoint of parts.known.checkpointsOf(sandbox).filter(isUnfinished)) {
    await parts.checkpoints.until(
      checkpoint.metadata.uid,
      (current) => (current !== undefined && isUnfinished(current) ? undefined : true),
      { what: `Waiting for the checkpoint ${checkpoint.metadata.name}`, ...waiting },
    );
  }
}

/** A merge patch of a Sandbox. With a resource version, it is refused with `Conflict` if another change came first. */
export interface SandboxChange {
  metadata?: { annotations?: Record<string, string | null>; resourceVersion?: string };
  spec?: object;
}

/** Changes only this sandbox, never a later one of its name. */
export async function patch(
  { informers, writes }: ServiceParts,
  sandbox: Sandbox,
  change: SandboxChange,
): Promise<Sandbox> {
  const { uid } = sandbox.metadata;
  return writes.write(sandbox, () =>
    informers.sandboxes.resource.mergePatch(sandbox.metadata, { ...change, metadata: { ...change.metadata, uid } }),
  );
}
