import { setImmediate as immediate } from "node:timers/promises";
import type { EngineBuild } from "../../api/engine/engine.ts";
import type { CheckpointRequest, CheckpointResult } from "../../api/wire/cell-api.ts";
import { type Clock, PhaseClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError, isFulfilled } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { type Manifest, type ManifestDraft, stagedBytes } from "../../store/manifest.ts";
import { openForWrite } from "../../store/open.ts";
import { scratchHint, spaceHint } from "../../store/store-error.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { captureLayer } from "../layers/capture-layer.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { type ImageWrites, memoryPagesIn } from "../sandbox/saved-image.ts";
import { type CellSetting, imageRan } from "../setting/cell-setting.ts";
import type { Activity } from "./activity.ts";
import { pageWritesFor } from "./capture-room.ts";

export interface CaptureSubject {
  sandbox: Sandbox;
  guest: GuestControl;
  setting: CellSetting;
  /** The size of the sandbox's writable layer. */
  layerBytes: number;
  clock: Clock;
  /** The engine, with the CPU features that the sandbox can use. */
  build: () => Promise<EngineBuild>;
  /** @see GuestIdentity.generation */
  generation: () => number | undefined;
  activity: Activity;
  /** The pause in which to capture. @default the capture pauses the sandbox itself */
  held?: HeldPause | undefined;
}

/** A pause that has begun before the capture. */
export interface HeldPause {
  /** When it began, on the monotonic clock. */
  sinceMilliseconds: number;
}

/** The guest delays a capture for at most this long. */
const guestMilliseconds = 2_000;

/**
 * Captures one checkpoint: pauses the sandbox, captures it, resumes it (unless `keepRunning` is false), then publishes the data
 * and last the manifest. After an error the sandbox keeps running, and the error says so.
 */
export async function captureCheckpoint(
  request: CheckpointRequest,
  subject: CaptureSubject,
): Promise<CheckpointResult> {
  const { engine } = subject.sandbox;
  // gVisor's program is loaded while the store is opened, so that the sandbox is paused for less time.
  if (request.asLayer !== true) engine.startEarly(request.contents.includes("memory") ? "checkpoint" : "fscheckpoint");
  try {
    return await captureAndPublish(request, subject);
  } finally {
    await engine.dropEarly();
  }
}

async function captureAndPublish(request: CheckpointRequest, subject: CaptureSubject): Promise<CheckpointResult> {
  const phases = new PhaseClock();
  const { clock } = subject;
  const [session, quiesced, programs] = await Promise.all([
    phases.phase("store-open", () => openForWrite(request.grant, { scratchPath: subject.setting.paths.directory })),
    // A paused guest does not answer. Its files were flushed before the pause.
    subject.held === undefined ? phases.phase("quiesce", () => quiesce(subject)) : true,
    randomPrograms(request, subject),
  ]);
  let held = subject.held !== undefined;
  try {
    if (session.published !== undefined) throw alreadyPublished(request.grant.checkpointId);
    const memory = request.contents.includes("memory");
    if (!memory && subject.setting.container.readOnlyRoot) throw withoutFiles(request.grant.checkpointId);
    const before = subject.generation();
    const { bytes } = subject.activity;
    const captured = await capture(request, subject, { path: session.stagingPath, phases });
    held = captured.held;
    const { pid = 0 } = subject.sandbox.engine;
    const succeeded = await subject.activity.resumed({ checkpointId: request.grant.checkpointId, bytes, pid });
    await requireWithin(request, session.stagingPath);
    // If the identity has changed during the capture, a clone asks its guest for the generation.
    const generation = subject.generation() === before ? before : undefined;
    const { driver, encryption } = request.grant;
    // Other stores keep an encrypted or uploaded copy.
    const isKept = driver === "directory" && encryption === undefined;
    const draft = await manifestDraft(request, subject, {
      cutAt: captured.cutAt,
      quiesced,
      ...defined({
        generation,
        randomPrograms: programs,
        clonedBytes: isKept ? captured.clonedBytes : undefined,
        leftOut: captured.leftOut,
        memoryPagesBytes: memory ? await memoryPagesIn(session.stagingPath) : undefined,
      }),
    });
    const published = await phases.phase("publish", () => session.publish(draft));
    succeeded();
    return {
      manifestDigest: published.manifestDigest,
      sizeBytes: published.sizeBytes,
      sharedBytes: published.sharedBytes,
      cutAt: captured.cutAt,
      readyAt: clock.now().toISOString(),
      pausedMilliseconds: captured.pausedMilliseconds,
      phases: { ...phases.phases, ...published.phases },
    };
  } catch (error) {
    throw withSourceState(withSpaceHint(error, request), await resumeIfHeld(subject.sandbox, held));
  } finally {
    await session.abandon();
  }
}

/** @throws RametError `QuotaExceeded` */
async function requireWithin({ maxBytes, grant }: CheckpointRequest, stagingPath: string): Promise<void> {
  if (maxBytes === undefined) return;
  const sizeBytes = await stagedBytes(stagingPath);
  if (sizeBytes <= maxBytes) return;
  const why = `it has ${sizeBytes} bytes, and its namespace may store ${maxBytes} more`;
  throw new RametError("QuotaExceeded", `capturing checkpoint ${grant.checkpointId} failed: ${why}`);
}

interface Capture {
  cutAt: string;
  pausedMilliseconds: number;
  /** Whether the sandbox is still paused. */
  held: boolean;
  /** @see Manifest.clonedBytes */
  clonedBytes?: number;
  /** @see Manifest.leftOut */
  leftOut?: Manifest["leftOut"];
}

interface CaptureInto {
  path: string;
  phases: PhaseClock;
}

async function capture(request: CheckpointRequest, subject: CaptureSubject, into: CaptureInto): Promise<Capture> {
  const { sandbox } = subject;
  if (request.asLayer === true) return captureFiles(request, subject, into);
  const writtenBytes = await sandbox.writtenBytes();
  const clones = await sandbox.images.canClone(into.path, writtenBytes);
  const memory = request.contents.includes("memory");
  // A clone of blocks needs no page cache.
  const content = { memory, writtenBytes: clones ? 0 : writtenBytes, imagePath: into.path };
  const pages = await pageWritesFor(sandbox.container, content);
  const writes = { pages, writtenBytes, clones: clones && pages === "cached" };
  // The kernel writes what is not on the disk yet before it clones a block. A capture without that only pauses for longer.
  if (writes.clones && subject.held === undefined) await into.phases.phase("flush", () => isFulfilled(sandbox.flush()));
  return captureInPause(request, subject, { ...into, writes });
}

async function captureFiles(
  { keepRunning, maxBytes }: CheckpointRequest,
  subject: CaptureSubject,
  { path, phases }: CaptureInto,
): Promise<Capture> {
  const { clock } = subject;
  const [cutAt, since] = [clock.now().toISOString(), clock.monotonicMilliseconds()];
  const { skipped: count, names } = await phases.phase("layer", () => captureLayer(subject, path, maxBytes));
  // Its programs are stopped meanwhile.
  const pausedMilliseconds = clock.monotonicMilliseconds() - since;
  if (!keepRunning) await subject.sandbox.engine.pause();
  // A guest of an earlier release counts sockets too, and names none.
  const leftOut = names.length > 0 ? { count, names } : undefined;
  return { cutAt, pausedMilliseconds, held: !keepRunning, ...defined({ leftOut }) };
}

/** Pauses the sandbox, captures it, and resumes it unless it is to be stopped. */
async function captureInPause(
  { contents, keepRunning }: CheckpointRequest,
  { sandbox: { engine }, clock, held }: CaptureSubject,
  { path, writes, phases }: CaptureInto & { writes: ImageWrites },
): Promise<Capture> {
  const start = held?.sinceMilliseconds ?? clock.monotonicMilliseconds();
  const cutAt = clock.now().toISOString();
  const memory = contents.includes("memory");
  // gVisor pauses and resumes the sandbox for a checkpoint, and does not keep it paused.
  const mustPause = held === undefined && !keepRunning;
  const isPaused = mustPause || held !== undefined;
  if (mustPause) await phases.phase("pause", () => engine.pause());
  let clonedBytes: number;
  try {
    clonedBytes = await phases.phase("engine", () =>
      memory ? engine.checkpoint(path, writes) : engine.saveFiles(path, writes),
    );
  } catch (error) {
    if (mustPause) await engine.resume().catch(() => undefined);
    throw error;
  }
  if (isPaused && keepRunning) await phases.phase("resume", () => engine.resume());
  return {
    cutAt,
    pausedMilliseconds: Math.round((clock.monotonicMilliseconds() - start) * 10) / 10,
    held: !keepRunning,
    ...(clonedBytes > 0 && { clonedBytes }),
  };
}

/** The controller checks the store before it repeats a call, so only an outdated call gets here. */
function alreadyPublished(checkpointId: string): RametError {
  return new RametError("AlreadyExists", `capturing checkpoint ${checkpointId} failed: it is already in the store`);
}

function withoutFiles(checkpointId: string): RametError {
  const why = "its root file system is read-only (securityContext.readOnlyRootFilesystem), so it has no changed files";
  return new RametError("InvalidArgument", `capturing checkpoint ${checkpointId} failed: ${why}`, {
    hint: "Capture memory too",
  });
}

/** Asks the guest to flush its files. A checkpoint without that is usable too. */
export async function quiesce({ guest, clock }: Pick<CaptureSubject, "guest" | "clock">): Promise<boolean> {
  const deadline = { clock, milliseconds: guestMilliseconds, what: "Flushing the files" };
  return isFulfilled(within(deadline, (signal) => guest.quiesce(signal)));
}

/** A capture is the same without the answer. A paused guest gives none. */
async function randomPrograms(
  { contents, findRandomPrograms }: CheckpointRequest,
  { guest, clock, held }: Pick<CaptureSubject, "guest" | "clock" | "held">,
): Promise<string[] | undefined> {
  if (findRandomPrograms !== true || held !== undefined || !contents.includes("memory")) return undefined;
  const deadline = { clock, milliseconds: guestMilliseconds, what: "Looking at the programs" };
  const found = await within(deadline, (signal) => guest.randomPrograms(signal)).catch(() => []);
  return found.length === 0 ? undefined : found;
}

async function manifestDraft(
  { contents }: CheckpointRequest,
  { sandbox, setting, layerBytes, build }: CaptureSubject,
  {
    quiesced,
    ...found
  }: Pick<ManifestDraft, "cutAt" | "generation" | "randomPrograms" | "clonedBytes" | "leftOut" | "memoryPagesBytes"> & {
    quiesced: boolean;
  },
): Promise<ManifestDraft> {
  const { config } = setting;
  return {
    contents,
    ...found,
    engine: { name: "gvisor", platform: "systrap", ...(await build()) },
    templateDigest: config.templateDigest,
    container: { ...config.container, resources: { ...config.container.resources, storageBytes: layerBytes } },
    image: imageRan(setting),
    consistency: contents.includes("memory") ? "atomic" : quiesced ? "quiesced" : "crash",
    ...(sandbox.layers.length > 0 && {
      layers: sandbox.layers.map(({ path: _, inode: __, ...ref }) => ref),
    }),
  };
}

/** Resumes the sandbox if it is paused. Returns whether it runs: it may have ended meanwhile. */
async function resumeIfHeld({ engine, ended }: Sandbox, held: boolean): Promise<boolean> {
  const resumed = await isFulfilled(held ? engine.resume() : Promise.resolve());
  // One turn of the event loop, so that an end that has already happened is noticed.
  return Promise.race([ended.then(() => false), immediate(resumed)]);
}

/** gVisor writes into the store's directory, or into the cell's on the way to a bucket. */
function withSpaceHint(thrown: unknown, { grant }: CheckpointRequest): RametError {
  const error = RametError.from(thrown);
  if (error.code !== "StoreFull") return error;
  const hint = grant.driver === "directory" ? spaceHint : scratchHint;
  return error.hint?.includes(hint) === true
    ? new RametError("StoreFull", error.message, { hint, cause: error })
    : error;
}

function withSourceState(error: unknown, isRunning: boolean): RametError {
  const { code, message, hint, retryable } = RametError.from(error);
  const what = isRunning ? `${message}; the sandbox keeps running` : message;
  return new RametError(code, what, { hint, retryable, cause: error });
}
