import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { hasExited } from "../../api/state/sandbox.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { type Engines, engineOfCheckpoint } from "../images/engines.ts";
import type { Informers } from "../cluster/resources.ts";

export interface EngineUpkeepOptions {
  engines: Pick<Engines, "droppable" | "drop" | "saveMissing">;
  informers: Pick<Informers, "checkpoints" | "sandboxes">;
  /** Whether the informers see the objects of all namespaces. If not, others may need what these do not. */
  seesAll: boolean;
  clock: Clock;
  log: Log;
  /** Pause before each check. @default 600000 */
  pauseMilliseconds?: number | undefined;
}

/**
 * Keeps the record of the engines complete, and forgets the cell images of earlier engines that no checkpoint and no sandbox
 * needs, in two checks in a row: what is being captured or started now shows in the second one. Runs in the leader only, until
 * `signal` is aborted.
 */
export async function runEngineUpkeep(options: EngineUpkeepOptions, signal: AbortSignal): Promise<void> {
  const { engines, seesAll, clock, log, pauseMilliseconds = 600_000 } = options;
  let before = new Set<string>();
  const isOver = () =>
    delay(clock, pauseMilliseconds, signal).then(
      () => false,
      () => true,
    );
  while (!(await isOver())) {
    try {
      await engines.saveMissing(signal);
      if (seesAll) before = await dropEngines(options, before, signal);
    } catch (error) {
      if (!signal.aborted) log.warn({ error: RametError.from(error).describe() }, "checking the engines failed");
    }
  }
}

/**
 * One check.
 * @param before the engines that nothing needed in the check before
 * @returns those that nothing needs now
 */
export async function dropEngines(
  { engines, informers: { checkpoints, sandboxes }, log }: Omit<EngineUpkeepOptions, "clock" | "seesAll">,
  before: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Set<string>> {
  const unneeded = (all: Objects): string[] => {
    const needed = neededEngines(all);
    return engines.droppable().filter((engine) => !needed.has(engine));
  };
  const shown = unneeded({ checkpoints: checkpoints.store.list(), sandboxes: sandboxes.store.list() });
  if (!shown.some((engine) => before.has(engine))) return new Set(shown);
  // The caches may lag, and a forgotten image does not come back.
  const [listed, running] = await Promise.all([
    checkpoints.resource.list({ signal }),
    sandboxes.resource.list({ signal }),
  ]);
  const confirmed = unneeded({ checkpoints: listed.items, sandboxes: running.items }).filter((engine) =>
    shown.includes(engine),
  );
  const drop = async (engine: string): Promise<void> => {
    const image = await engines.drop(engine);
    if (image === undefined) return;
    log.info({ engine, image }, "forgot the cell image of an earlier engine, which no checkpoint and no sandbox needs");
  };
  await Promise.all(confirmed.filter((engine) => before.has(engine)).map(drop));
  return new Set(confirmed.filter((engine) => engines.droppable().includes(engine)));
}

interface Objects {
  checkpoints: readonly Checkpoint[];
  sandboxes: readonly Sandbox[];
}

/** A running sandbox needs its engine for its next checkpoint; a paused one has a checkpoint. */
function neededEngines({ checkpoints, sandboxes }: Objects): Set<string> {
  const ofSandboxes = sandboxes.map((sandbox) => (hasExited(sandbox) ? undefined : sandbox.status?.ramet?.engine));
  return new Set([...checkpoints.map(engineOfCheckpoint), ...ofSandboxes].filter((engine) => engine !== undefined));
}
