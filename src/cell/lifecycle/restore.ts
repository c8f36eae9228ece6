import type { Programs } from "../../api/schema/metadata.ts";
import type {
  CellState,
  Identity,
  RestoreInPlaceCall,
  RestoreRequest,
  RestoreResult,
} from "../../api/wire/cell-api.ts";
import { PhaseClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { type RestoreSource, openRestoreSource } from "../checkpoint/restore-source.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { keepOnlyLayers } from "../layers/layer-cache.ts";
import { untilGuestAnswers } from "../sandbox/handover.ts";
import { imageRan, ownLayer } from "../setting/cell-setting.ts";
import type { CellCore } from "./cell-core.ts";

/**
 * Restores a checkpoint into a cell in which no sandbox has run yet.
 * @param prepared the cell's preparation, which runs while the checkpoint is opened
 */
export async function restore(
  core: CellCore,
  request: RestoreRequest,
  prepared: () => Promise<void>,
): Promise<RestoreResult> {
  const phases = new PhaseClock();
  try {
    const [source] = await Promise.all([
      phases.phase("store", () => openSource(core, request)),
      phases.phase("prepare", prepared),
    ]);
    try {
      core.states.set({ phase: "restoring" });
      await phases.phase("engine", () => core.environment.start(source));
      return await openClone(core, request, { source, phases });
    } finally {
      // gVisor may still read pages in the background, through files that it has open.
      source.release();
    }
  } catch (error) {
    core.fail(error);
    throw error;
  }
}

/**
 * Replaces the running sandbox by a checkpoint. A checkpoint that cannot be restored fails the call before the sandbox is
 * stopped, and the sandbox keeps running.
 */
export async function restoreInPlace(core: CellCore, request: RestoreInPlaceCall): Promise<RestoreResult> {
  const phases = new PhaseClock();
  const { layers } = core.environment.sandbox;
  core.states.set({ swapping: request.request });
  // The guest answers while the replacement is prepared.
  const before = request.reportsPrograms && programsOf(core);
  try {
    const source = await phases.phase("store", () => openSource(core, request));
    try {
      const replace = await phases.phase("prepare", () => core.environment.prepareReplacement(source));
      const ended = await before;
      const result = await replaceSandbox(core, request, { source, phases, replace });
      await keepOnlyLayers(source.layers, layerUse(core));
      if (before === undefined) return result;
      return { ...result, programs: defined({ ended, running: await programsOf(core) }) };
    } finally {
      source.release();
    }
  } catch (error) {
    // Layers that the sandbox does not get could not be removed from the node while it runs.
    await keepOnlyLayers(layers, layerUse(core));
    throw error;
  } finally {
    core.states.unset("swapping");
  }
}

const layerUse = ({ setting: { paths }, cache, report }: CellCore) => ({ paths, cache, report });

/** A guest answers in about 20 ms; a silent one delays the roll-back by at most this before and after. */
const programsMilliseconds = 300;

/** The programs of the sandbox. Undefined: its guest does not list them in time. */
function programsOf({ environment, clock }: CellCore): Promise<Programs | undefined> {
  const deadline = { clock, milliseconds: programsMilliseconds, what: "Listing the programs" };
  return within(deadline, (signal) => environment.guest().programs(signal)).catch(() => undefined);
}

interface Restoring {
  source: RestoreSource;
  phases: PhaseClock;
}

/** From here on the old sandbox is lost: a failure fails the cell. */
async function replaceSandbox(
  core: CellCore,
  request: RestoreInPlaceCall,
  { replace, ...restoring }: Restoring & { replace: () => Promise<void> },
): Promise<RestoreResult> {
  const { states, environment } = core;
  const { phases } = restoring;
  try {
    states.set({ phase: "restoring", ready: false });
    core.activity.forget();
    await phases.phase("gate", () => Promise.all([environment.network.setGate(false), environment.liftCpuLimit()]));
    states.unset("memory");
    await phases.phase("engine", replace);
    return await openClone(core, request, restoring);
  } catch (error) {
    core.fail(error);
    throw error;
  }
}

async function openClone(
  core: CellCore,
  { identity }: RestoreRequest,
  { source, phases }: Restoring,
): Promise<RestoreResult> {
  if (source.memory !== undefined) core.states.set({ memory: source.memory });
  core.states.set({ writableLayer: { ...ownLayer(core.setting), sizeBytes: source.layerBytes } });
  core.setMemoryFeatures(source.cpuFeatures);
  const state = await openSandbox(core, { identity, clone: true, before: source.generation }, phases);
  return { state, phases: phases.phases };
}

function openSource(
  { setting, cache, report, engineBuild }: CellCore,
  request: RestoreRequest,
): Promise<RestoreSource> {
  return openRestoreSource(request, {
    paths: setting.paths,
    cache,
    layerBytes: ownLayer(setting).sizeBytes,
    isLayerLimited: setting.config.container.resources.storageBytes !== undefined,
    image: imageRan(setting),
    report,
    build: engineBuild,
  });
}

/** How long a replaced sandbox stays before it is removed, so that the new one has the CPU for its first responses. */
const removeReplacedMilliseconds = 200;

interface OpenSandboxOptions {
  identity: Identity;
  clone: boolean;
  /** How many identities the guest's memory had before. Undefined if unknown. */
  before: number | undefined;
}

/** The step between start or restore and traffic: gives the guest its identity, then opens ingress and egress. */
export async function openSandbox(
  core: CellCore,
  { identity, clone, before }: OpenSandboxOptions,
  phases: PhaseClock,
): Promise<CellState> {
  const { environment, states, clock } = core;
  const guest = environment.guest();
  const { ended } = environment.sandbox;
  core.identity.reset(before);
  // Before the entrypoint starts, which gets the variables of the trust store.
  await untilGuestAnswers(() => core.credentials.trustedBy(guest), { ended, clock });
  const generation = await core.identity.give(guest, identity, {
    clone,
    via: (what, call) => phases.phase(what, () => untilGuestAnswers(call, { ended, clock })),
  });
  await phases.phase("gate", async () => {
    await environment.limitCpu();
    await environment.network.setGate(true);
  });
  void followEntrypoint(core, guest);
  clock.schedule(removeReplacedMilliseconds, () => {
    removeReplaced(core);
  });
  // The answer has the engine, which was determined while the sandbox started. The next checkpoint needs it too.
  await core.engineBuild().catch(() => undefined);
  return states.set({ phase: "running", ready: true, generation });
}

/** When the entrypoint exits, the sandbox stops with its exit code, as a container does. */
async function followEntrypoint(core: CellCore, guest: GuestControl): Promise<void> {
  const { sandbox } = core.environment;
  const exit = await guest.untilExit(sandbox.ended);
  if (exit === undefined || sandbox.destroyed) return;
  const exceeded = sandbox.exceededLimit();
  if (exceeded === undefined) core.onEntrypointExit(exit);
  else core.fail(exceeded);
}

function removeReplaced({ environment, report }: CellCore): void {
  environment.removeReplaced().catch((error: unknown) => {
    report("removing the replaced sandbox failed", { message: RametError.from(error).message });
  });
}
