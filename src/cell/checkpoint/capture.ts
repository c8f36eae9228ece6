import { setImmediate as immediate } from "node:timers/promises";
import type { CheckpointRequest, CheckpointResult, EngineBuild } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { ManifestDraft } from "../../store/manifest.ts";
import { openForWrite } from "../../store/open.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { GuestControl } from "../client/guest-control.ts";
import type { Engine } from "../sandbox/engine.ts";
import { PhaseClock } from "../../base/phases.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

export interface CaptureSubject {
  sandbox: Sandbox;
  guest: GuestControl;
  setting: CellSetting;
  build: () => Promise<EngineBuild>;
  /** How often the guest has been given an identity, while that is certain. */
  generation: () => number | undefined;
}

const quiesceTimeoutMilliseconds = 2_000;

/**
 * Takes one checkpoint: pause, capture, resume (or hold, for `keepRunning: false`), publish data, then the manifest.
 * On any error the source goes on as it was, and the error says so.
 */
export async function cut(request: CheckpointRequest, subject: CaptureSubject): Promise<CheckpointResult> {
  const { engine } = subject.sandbox;
  // gVisor's program is loaded while the store is opened, and not while the source stands still.
  if (request.contents.includes("memory")) engine.hold("checkpoint");
  try {
    return await captureAndPublish(request, subject);
  } finally {
    await engine.dropHeld();
  }
}

async function captureAndPublish(request: CheckpointRequest, subject: CaptureSubject): Promise<CheckpointResult> {
  const clock = new PhaseClock();
  const { engine } = subject.sandbox;
  const [session, quiesced] = await Promise.all([
    clock.phase("store-open", () => openForWrite(request.grant, { scratchPath: subject.setting.paths.directory })),
    clock.phase("quiesce", () => quiesce(subject.guest)),
  ]);
  let held = false;
  try {
    if (session.published !== undefined) throw alreadyTaken(request.grant.checkpointId);
    const before = subject.generation();
    const captured = await capture(request, engine, { path: session.stagingPath, clock });
    held = captured.held;
    // Another identity may have come in the middle of it: then a clone asks.
    const generation = subject.generation() === before ? before : undefined;
    const draft = await manifestDraft(request, subject, { cutAt: captured.cutAt, quiesced, generation });
    const published = await clock.phase("publish", () => session.publish(draft));
    return {
      manifestDigest: published.manifestDigest,
      sizeBytes: published.sizeBytes,
      cutAt: captured.cutAt,
      readyAt: new Date().toISOString(),
      pausedMilliseconds: captured.pausedMilliseconds,
      phases: { ...clock.phases, ...published.phases },
    };
  } catch (error) {
    throw withSourceState(error, await goOn(subject.sandbox, held));
  } finally {
    await session.abandon();
  }
}

interface Capture {
  cutAt: string;
  pausedMilliseconds: number;
  /** The source stands still and waits to be stopped or resumed. */
  held: boolean;
}

/** Stops the world, captures, and lets it go on unless the source is to end. */
async function capture(
  { contents, keepRunning }: CheckpointRequest,
  engine: Engine,
  { path, clock }: { path: string; clock: PhaseClock },
): Promise<Capture> {
  const start = performance.now();
  const cutAt = new Date().toISOString();
  const memory = contents.includes("memory");
  // gVisor's checkpoint stops and starts the world by itself; a tar does not, and neither holds it.
  const mustPause = !memory || !keepRunning;
  if (mustPause) await clock.phase("pause", () => engine.pause());
  try {
    if (memory) await clock.phase("engine", () => engine.checkpoint(path));
    else await clock.phase("engine", () => engine.saveFilesystem(`${path}/filesystem.tar`));
  } catch (error) {
    if (mustPause) await engine.resume().catch(() => undefined);
    throw error;
  }
  if (mustPause && keepRunning) await clock.phase("resume", () => engine.resume());
  return { cutAt, pausedMilliseconds: Math.round((performance.now() - start) * 10) / 10, held: !keepRunning };
}

/** The controller looks into the store before it asks again, so this comes only of a call that is out of order. */
function alreadyTaken(checkpointId: string): RametError {
  return new RametError("AlreadyExists", `checkpoint ${checkpointId} is in the store already; no new cut was taken`);
}

/** Asks the guest to flush; a guest that does not answer makes the checkpoint no less usable, only less tidy. */
async function quiesce(guest: GuestControl): Promise<boolean> {
  try {
    await guest.quiesce(AbortSignal.timeout(quiesceTimeoutMilliseconds));
    return true;
  } catch {
    return false;
  }
}

async function manifestDraft(
  { contents }: CheckpointRequest,
  { setting, build }: CaptureSubject,
  { cutAt, quiesced, generation }: { cutAt: string; quiesced: boolean; generation: number | undefined },
): Promise<ManifestDraft> {
  const { config, image } = setting;
  return {
    contents,
    cutAt,
    engine: { name: "gvisor", platform: "systrap", ...(await build()) },
    templateDigest: config.templateDigest,
    container: config.container,
    image: { name: config.container.image, ...(image.digest === undefined ? {} : { digest: image.digest }) },
    consistency: contents.includes("memory") ? "atomic" : quiesced ? "quiesced" : "crash",
    ...(generation !== undefined && { generation }),
  };
}

/** Lets a source that was held go on; whether it does, as it may have ended meanwhile for a reason of its own. */
async function goOn({ engine, ended }: Sandbox, held: boolean): Promise<boolean> {
  const resumed = await (held ? engine.resume() : Promise.resolve()).then(
    () => true,
    () => false,
  );
  // One turn of the loop, so that an end which has come already is heard.
  return Promise.race([ended.then(() => false), immediate(resumed)]);
}

function withSourceState(error: unknown, goesOn: boolean): RametError {
  const { code, message, hint, retryable } = RametError.from(error);
  return new RametError(code, goesOn ? `${message}; the sandbox goes on as it was` : message, {
    retryable,
    cause: error,
    ...(hint === undefined ? {} : { hint }),
  });
}
