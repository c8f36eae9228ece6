import type { RestoreInPlaceCall, RestoreRequest, RestoreResult } from "../../api/wire/cell-api.ts";
import type { Programs } from "../../api/schema/metadata.ts";
import { defined } from "../../base/defined.ts";
import { PhaseClock } from "../../base/phases.ts";
import { within } from "../../base/within.ts";
import { openRestoreSource, type RestoreSource } from "../checkpoint/restore-source.ts";
import { keepOnlyLayers } from "../layers/layer-cache.ts";
import { imageRan, ownLayer } from "../setting/cell-setting.ts";
import type { CellCore } from "./cell-core.ts";
import { openSandbox } from "./open-sandbox.ts";

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
  core.states.set({ swapping: request.request });
  // The guest answers while the replacement is prepared.
  const before = request.reportsPrograms && programsOf(core);
  try {
    const source = await phases.phase("store", () => openSource(core, request));
    try {
      const replace = await phases.phase("prepare", () => core.environment.prepareReplacement(source));
      const ended = await before;
      const result = await replaceSandbox(core, request, { source, phases, replace });
      await keepOnlyLayers(source.layers, core.cache);
      if (before === undefined) return result;
      return { ...result, programs: defined({ ended, running: await programsOf(core) }) };
    } finally {
      source.release();
    }
  } finally {
    core.states.unset("swapping");
  }
}

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
